#include "convoy/planner/estimate/memory_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>

#include "convoy/planner/estimate/estimate.h"
#include "tests/train/zero_testing.h"

namespace convoy::train {
namespace {

using namespace zero_testing;
using ::testing::HasSubstr;
using ::testing::Not;

class StateBytes : public InFolder {
 protected:
  /// With `kinds` of state on a disk: moments (and masters), gradients, weights.
  options::TrainingArguments arguments(const std::string& precision, int64_t zero,
                                       int64_t kinds) const {
    auto out = in_precision(zero_arguments(zero), precision);
    auto& offload = out.parallel.parallelism.offload;
    if (kinds > 0) offload.folder = folder_.string();
    if (kinds > 0) offload.optimizer = parallel::Place::Disk;
    if (kinds > 1) offload.gradients = parallel::Place::Disk;
    if (kinds > 2) offload.parameters = parallel::Place::Disk;
    OptionTable table;
    auto typed = out;
    typed.declare(table);
    out.parallel.share(table);
    return out;
  }
};

TEST_F(StateBytes, AreTheSameToTheCheckTheEstimateAndTheRank) {
  constexpr int kRanks = 2;
  double parameters = 0;  // with what aligns them
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    for (const int64_t zero : {0, 1, 2, 3}) {
      for (int64_t kinds = 0; kinds <= std::array<int64_t, 4>{1, 1, 2, 3}[zero]; ++kinds) {
        SCOPED_TRACE(fmt::format("{}, stage {}, {} kinds on a disk", precision, zero, kinds));
        const auto options = arguments(precision, zero, kinds);
        const auto told =
            convoy::estimate(small_gpt2, options, *texts(), kRanks).stages.at(0).memory;
        if (parameters == 0) parameters = static_cast<double>(told.parameters) / 4;
        const auto estimated =
            static_cast<double>(told.parameters + told.gradients + told.optimizer);
        run_ranks(kRanks, [&](const job::Job& job) {
          Trainer trainer(small_gpt2, options, texts(), nullptr, job);
          const auto kept = trainer.strategy().replica().memory();
          EXPECT_EQ(told.parameters, kept.parameters);
          EXPECT_EQ(told.gradients, kept.gradients);
          EXPECT_EQ(told.optimizer, kept.optimizer);
          const double checked = planner::state_bytes(
              {{.what = "it takes", .parameters = parameters}}, options.parallel, job.environment);
          EXPECT_NEAR(checked, estimated, 0.01 * estimated + 1);
        });
      }
    }
  }
}

TEST(MemoryAdvice, IsNothingThatARunDoesAlready) {
  options::TrainingArguments arguments;
  arguments.per_device_train_batch_size = 8;
  const auto plain = planner::to_take_less(arguments, 1);
  EXPECT_THAT(plain, HasSubstr("a smaller per_device_train_batch_size"));
  EXPECT_THAT(plain, HasSubstr("bf16"));
  EXPECT_THAT(plain, Not(HasSubstr("zero")));
  EXPECT_THAT(plain, Not(HasSubstr("fewer ranks")));
  EXPECT_THAT(planner::to_take_less(arguments, 4, 2), HasSubstr("zero = 3, fewer ranks on a host"));
  arguments.per_device_train_batch_size = 1;
  arguments.bf16 = arguments.gradient_checkpointing = true;
  arguments.parallel.parallelism.offload.optimizer = parallel::Place::Disk;
  arguments.parallel.parallelism.zero = 3;
  EXPECT_EQ(planner::to_take_less(arguments, 2), "shorter rows");
  arguments.bf16 = false;
  arguments.fp16 = true;
  EXPECT_THAT(planner::to_take_less(arguments, 2), Not(HasSubstr("bf16")));
}

TEST(MemoryAdvice, IsThatOfTheRunUnderWay) {
  planner::set_memory_advice("shorter rows");
  EXPECT_THAT(planner::out_of_memory(""), HasSubstr("; try shorter rows"));
  EXPECT_THAT(planner::little_memory(1, 1), HasSubstr("; try shorter rows"));
  planner::set_memory_advice("");
  EXPECT_THAT(planner::out_of_memory(""), HasSubstr("; try a smaller batch"));
}

}  // namespace
}  // namespace convoy::train
