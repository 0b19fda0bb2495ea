#include "convoy/job/numerics.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "convoy/base/error.h"
#include "tests/train/testing.h"

namespace convoy::train {
namespace {

TEST(Numerics, Tf32LastsAsLongAsItsObject) {
  auto& context = at::globalContext();
  ASSERT_FALSE(context.allowTF32CuBLAS());
  {
    const job::Tf32 products(true);
    EXPECT_TRUE(context.allowTF32CuBLAS());
  }
  EXPECT_FALSE(context.allowTF32CuBLAS());
  const job::Tf32 products(false);
  EXPECT_FALSE(context.allowTF32CuBLAS());
}

TEST(Numerics, DeterministicLeavesNoOperationWithoutAnOrder) {
  job::make_gpus_deterministic();
  auto& context = at::globalContext();
  EXPECT_TRUE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.userEnabledFlashSDP() || context.userEnabledMemEfficientSDP() ||
               context.userEnabledCuDNNSDP());
  EXPECT_TRUE(context.userEnabledMathSDP());
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
  // As it was, for the tests after this one.
  context.setDeterministicAlgorithms(false, false);
  context.setSDPUseFlash(true);
  context.setSDPUseMemEfficient(true);
  context.setSDPUseCuDNN(true);
}

TEST(Numerics, Tf32IsRefusedOnTheCpu) {
  options::TrainingArguments arguments;
  arguments.tf32 = true;
  const auto model = [] { return nn::BlockList{}; };
  try {
    Trainer trainer(model, arguments, random_sessions(8, 9, 4), nullptr, one_device());
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("tf32 is for GPUs; got the CPU"), std::string::npos);
  }
}

}  // namespace
}  // namespace convoy::train
