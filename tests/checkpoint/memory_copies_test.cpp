#include "convoy/checkpoint/memory_copies.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/weights.h"

namespace convoy::checkpoint {
namespace {

namespace fs = std::filesystem;

/// A folder of memory as a launcher keeps it, with a state that one process holds.
class MemorySlots : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = unique_folder("convoy-slots");
    for (int i = 0; i < 4; ++i) std::ofstream(folder_ / fmt::format("memory-{}", i)).flush();
  }
  void TearDown() override { fs::remove_all(folder_); }

  static parallel::State state(const std::string& name, double value) {
    return {{.name = name, .shape = {64, 64}, .pieces = {{.values = at::full({64 * 64}, value)}}}};
  }

  void write(MemoryCopies& copies, int64_t step) const {
    tell_step(step);
    copies.write(step, state("w", static_cast<double>(step)),
                 state("exp_avg.w", static_cast<double>(-step)), {{kState, "{}"}}, {});
  }

  std::vector<int64_t> steps() const {
    std::vector<int64_t> out;
    for (const auto& [step, path] : list_checkpoints(folder_)) out.push_back(step);
    return out;
  }

  void expect_whole(int64_t step) const {
    const auto copy = folder_ / fmt::format("checkpoint-{}", step);
    auto weights = state("w", 0), moments = state("exp_avg.w", 0);
    load_weights(copy, weights, {});
    load_optimizer(copy / kOptimizer, moments, {});
    EXPECT_TRUE(weights[0].pieces[0].values.eq(static_cast<double>(step)).all().item<bool>());
    EXPECT_TRUE(moments[0].pieces[0].values.eq(static_cast<double>(-step)).all().item<bool>());
  }

  fs::path folder_;
};

TEST_F(MemorySlots, HoldTheTwoNewestCopies) {
  MemoryCopies copies(folder_);
  for (const int64_t step : {1, 2, 3, 4, 5}) {
    write(copies, step);
    if (step > 1) EXPECT_EQ(steps(), (std::vector<int64_t>{step - 1, step}));
    expect_whole(step);
    if (step > 1) expect_whole(step - 1);
  }
  // A process that starts later goes on with the older one's slot.
  MemoryCopies later(folder_);
  write(later, 6);
  EXPECT_EQ(steps(), (std::vector<int64_t>{5, 6}));
  expect_whole(5);
  expect_whole(6);
  EXPECT_GE(later.slots().held(),
            MemoryCopies::bytes_of_both(state("w", 0), state("exp_avg.w", 0)));
}

TEST_F(MemorySlots, ACopyThatEndsInTheMiddleLeavesTheNewerOne) {
  MemoryCopies copies(folder_);
  write(copies, 1);
  write(copies, 2);
  for (const char* phase : {"copy", "copy_sum", "copy_end"}) {
    SCOPED_TRACE(phase);
    ::setenv("CONVOY_FAULT", fmt::format("exception@0:{}:3", phase).c_str(), 1);
    arm_fault(0, 1, 0);
    EXPECT_ANY_THROW(write(copies, 3));
    ::unsetenv("CONVOY_FAULT");
    arm_fault(0, 1, 0);
    EXPECT_EQ(steps(), (std::vector<int64_t>{2}));
    expect_whole(2);
  }
  write(copies, 3);
  EXPECT_EQ(steps(), (std::vector<int64_t>{2, 3}));
}

// As where a rank that holds some elements wrote none.
TEST_F(MemorySlots, ACopyThatLacksAPieceIsRefused) {
  MemoryCopies copies(folder_);
  write(copies, 1);
  write(copies, 2);
  auto half = state("w", 3);
  half[0].pieces[0] = half[0].pieces[0].part(0, 2048);
  copies.write(3, half, state("exp_avg.w", -3), {{kState, "{}"}}, {});
  auto weights = state("w", 0);
  EXPECT_THROW(load_weights(folder_ / "checkpoint-3", weights, {}), FileError);
  expect_whole(2);
}

// Frozen weights go into each slot once, with the sums that they had.
TEST_F(MemorySlots, StateThatNoStepChangesIsCopiedOnce) {
  MemoryCopies copies(folder_);
  const auto write_both = [&](int64_t step, double frozen_value) {
    auto weights = state("w", static_cast<double>(step));
    auto frozen = state("base", frozen_value);
    frozen[0].trained = false;
    weights.push_back(frozen[0]);
    copies.write(step, weights, state("exp_avg.w", static_cast<double>(-step)), {{kState, "{}"}},
                 {});
  };
  write_both(1, 9);
  write_both(2, 9);
  for (const int64_t step : {3, 4}) {
    write_both(step, 5);  // what would be written if it were copied again
    auto weights = state("w", 0), base = state("base", 0);
    weights.push_back(base[0]);
    load_weights(folder_ / fmt::format("checkpoint-{}", step), weights, {});
    EXPECT_TRUE(weights[0].pieces[0].values.eq(static_cast<double>(step)).all().item<bool>());
    EXPECT_TRUE(base[0].pieces[0].values.eq(9).all().item<bool>());
  }
}

TEST_F(MemorySlots, SayWhatIsMissing) {
  fs::remove(folder_ / "memory-2");
  MemoryCopies copies(folder_);
  write(copies, 1);
  EXPECT_THROW(write(copies, 2), FileError);
  expect_whole(1);
}

}  // namespace
}  // namespace convoy::checkpoint
