#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/parallel/buffers/held_rows.h"

// Rows that are read as they were while they change.
namespace convoy::parallel::held_rows {
namespace {

constexpr int64_t kRows = 5000, kWidth = 24;

at::Tensor some_rows(int64_t count) {
  return std::get<0>(at::sort(at::randperm(kRows, at::kLong).narrow(0, 0, count)));
}

TEST(HeldRows, AreTakenAsTheyWereWhileAnotherThreadChangesThem) {
  at::manual_seed(3);
  const auto rows = at::randn({kRows, kWidth});
  const auto before = rows.clone();
  ChangingRows changing(rows);
  const auto held = changing.hold();
  std::atomic<bool> begun{false};
  std::vector<at::Tensor> taken;
  std::thread reader([&] {
    while (!begun) std::this_thread::yield();
    for (int64_t at = 0; at < kRows; at += 70)
      taken.push_back(held->take(at, std::min<int64_t>(70, kRows - at)));
  });
  for (int step = 0; step < 200; ++step) {
    const auto index = some_rows(60);
    changing.about_to_change(index);
    at::Tensor(rows).index_add_(0, index, at::ones({60, kWidth}));
    begun = true;
  }
  reader.join();
  EXPECT_TRUE(at::equal(at::cat(taken), before));
  EXPECT_FALSE(at::equal(rows, before));
}

TEST(HeldRows, KeepARowOnceAndOnlyWhereItWasNotTaken) {
  const auto rows = at::arange(40, at::kFloat).view({10, 4});
  ChangingRows changing(rows);
  const auto held = changing.hold();
  EXPECT_TRUE(at::equal(held->take(0, 3), rows.narrow(0, 0, 3)));
  for (int time = 0; time < 2; ++time) {
    const auto index = at::tensor({1, 4, 8}, at::kLong);
    changing.about_to_change(index);
    rows.index_fill_(0, index, -1);
    EXPECT_EQ(held->num_kept(), 2);
  }
  EXPECT_TRUE(at::equal(held->take(3, 7), at::arange(12, 40, at::kFloat).view({7, 4})));
  EXPECT_THROW(held->take(0, 1), InternalError);
  EXPECT_THROW(ChangingRows(at::zeros({4, 8}).t()).hold(), InternalError);
}

TEST(HeldRows, AreOfTheTimeWhenTheyWereHeld) {
  const auto rows = at::zeros({3, 2});
  ChangingRows changing(rows);
  const auto first = changing.hold();
  const auto change = [&](int64_t row, double value) {
    const auto index = at::tensor({row}, at::kLong);
    changing.about_to_change(index);
    rows.index_fill_(0, index, value);
  };
  change(1, 5);
  auto second = changing.hold();
  change(1, 7);
  change(2, 8);
  EXPECT_TRUE(at::equal(first->take(0, 3), at::zeros({3, 2})));
  EXPECT_TRUE(at::equal(second->take(0, 3).select(1, 0), at::tensor({0.F, 5.F, 0.F})));
  second.reset();
  change(0, 1);  // nobody holds them any more
}

}  // namespace
}  // namespace convoy::parallel::held_rows
