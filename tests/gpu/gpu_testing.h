#pragma once

#include <gtest/gtest.h>

#include "convoy/comm/cuda.h"
#include "convoy/job/job.h"
#include "convoy/job/open_devices.h"

namespace convoy {

/// Tests that need a GPU; elsewhere they are skipped with the reason. They run on GPU 0.
class Gpu : public testing::Test {
 public:
  static void SetUpTestSuite() { job::open_devices(); }

 protected:
  void SetUp() override {
    std::string why = "there is no GPU here, or CUDA_VISIBLE_DEVICES hides it";
    if (!job::visible_devices("auto", &why).front().is_cuda()) GTEST_SKIP() << why;
  }

  const at::Device gpu_{at::kCUDA, 0};
};

}  // namespace convoy
