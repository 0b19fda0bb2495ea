#pragma once

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/manifest.h"
#include "tests/train/testing.h"

namespace convoy::train {

namespace fs = std::filesystem;

/// Trains small models in folders.
class Folders : public InFolder {
 protected:
  options::TrainingArguments arguments(const fs::path& dir, int64_t steps) const {
    options::TrainingArguments out;
    out.per_device_train_batch_size = 4;
    out.max_steps = steps;
    out.learning_rate = 1e-2;
    out.save_steps = 2;
    out.output.quiet = true;
    out.output.dir = dir.string();
    return out;
  }

  struct End {
    int64_t first_step = -1;
    TrainerState state;
    at::Tensor weights, moments;
    std::string error;
    bool usage = false;
  };

  /// Notes where a run goes on from.
  struct First : Callback {
    void on_step(const StepTiming& timing) override { step = std::min(step, timing.step); }
    int64_t step = INT64_MAX;
  };

  End train(const options::TrainingArguments& arguments, const job::Job& job,
            std::shared_ptr<dataset::Dataset> eval_data = nullptr,
            std::shared_ptr<Callback> callback = nullptr,
            std::shared_ptr<dataset::Dataset> data = random_sessions(45, 50, 8)) const {
    End end;
    try {
      Trainer trainer(tiny_model(), arguments, std::move(data), std::move(eval_data), job);
      trainer.set_files(files_);
      auto first = std::make_shared<First>();
      trainer.add_callback(first);
      if (callback) trainer.add_callback(callback);
      trainer.train();
      end.first_step = first->step;
      end.state = trainer.state();
      auto& flat = trainer.strategy().replica().flat();
      end.weights = flat.masters().clone();
      end.moments = flat.moments()[1].clone();
    } catch (const Error& error) {
      end.error = error.what();
      end.usage = dynamic_cast<const UsageError*>(&error) != nullptr;
    }
    return end;
  }

  /// Keeps what was said.
  struct Said : Callback {
    void on_message(const std::string& text) override { all += text + "\n"; }
    std::string all;
  };

  /// Changes the state in a checkpoint, as if it had been written so.
  static void edit_state(const fs::path& checkpoint, const std::function<void(Json&)>& edit) {
    const auto path = checkpoint / checkpoint::kState;
    auto state = parse_json(read_file(path), path.string());
    edit(state);
    write_file(path, state.dump());
    auto manifest = checkpoint::Manifest::read(checkpoint);
    manifest.set_others(checkpoint);
    write_file(checkpoint / checkpoint::Manifest::kName, manifest.to_text());
  }

  ModelFiles files_;

  /// Two ranks, each with its own settings: they do not see the same files.
  std::array<End, 2> train_two(const std::array<options::TrainingArguments, 2>& arguments) const {
    std::array<End, 2> ends;
    run_two_ranks([&](const job::Job& job) {
      const auto rank = static_cast<size_t>(job.environment.rank);
      ends[rank] = train(arguments[rank], job, random_sessions(20, 50, 8));
    });
    return ends;
  }
};

}  // namespace convoy::train
