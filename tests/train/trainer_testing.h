#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "convoy/base/error.h"
#include "tests/train/testing.h"

namespace convoy::train {

namespace fs = std::filesystem;

class TrainerTest : public InFolder {
 protected:
  options::TrainingArguments arguments(const std::string& name) {
    options::TrainingArguments out;
    out.per_device_train_batch_size = 8;
    out.per_device_eval_batch_size = 16;
    out.num_train_epochs = 2;
    out.learning_rate = 1e-2;
    out.logging_steps = 1;
    out.save_strategy = "no";
    out.output.quiet = true;
    out.output.dir = (folder_ / name).string();
    return out;
  }

  std::string error_of(const options::TrainingArguments& arguments,
                       std::shared_ptr<dataset::Dataset> data = random_sessions(45, 50, 8)) {
    try {
      Trainer(tiny_model(), arguments, data, nullptr, job_).train();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  static void expect_in(const std::string& part, const std::string& text) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }

  job::Job job_ = one_device();
  std::shared_ptr<dataset::Dataset> data_ = random_sessions(45, 50, 8);
};

}  // namespace convoy::train
