#include "convoy/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "convoy/base/error.h"

namespace convoy::data {
namespace {

std::vector<int64_t> rows_of(const EpochOrder& order) {
  std::vector<int64_t> rows;
  for (int64_t s = 0; s < order.num_samples(); ++s) rows.push_back(order.row_of(s));
  return rows;
}

std::vector<int64_t> sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<int64_t> count_to(int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

int64_t total(const std::vector<int64_t>& groups) {
  return std::accumulate(groups.begin(), groups.end(), int64_t{0});
}

std::vector<std::vector<int64_t>> shapes() {
  return {{1},
          {5},
          {63},
          {64},
          {65},
          {1000},
          {0, 7, 0},
          std::vector<int64_t>(1000, 1),
          {100, 1},
          {3, 300, 9},
          {0, 0, 64},
          {128, 128, 128},
          {777, 0, 1, 222}};
}

TEST(EpochOrder, EveryRowExactlyOnce) {
  for (const auto& groups : shapes()) {
    for (int64_t lanes : {1, 3, 63, 64, 100}) {
      for (int64_t window : {0, 1, 2, 7, 1000}) {
        EpochOrder order(groups, {.seed = 3, .epoch = 1, .lanes = lanes, .window = window});
        ASSERT_EQ(order.num_samples(), total(groups));
        ASSERT_EQ(order.num_dense_samples(), total(groups));
        ASSERT_EQ(sorted(rows_of(order)), count_to(total(groups)))
            << groups.size() << " groups, " << lanes << " lanes, window " << window;
      }
    }
  }
}

TEST(EpochOrder, UnshuffledIsTheFile) {
  for (const auto& groups : shapes()) {
    EXPECT_EQ(rows_of(EpochOrder(groups, {.shuffle = false})), count_to(total(groups)));
  }
}

TEST(EpochOrder, DependsOnSeedAndEpochOnly) {
  const std::vector<int64_t> groups = {300, 40, 500};
  auto rows = [&](uint64_t seed, int64_t epoch) {
    return rows_of(EpochOrder(groups, {.seed = seed, .epoch = epoch}));
  };
  EXPECT_EQ(rows(1, 2), rows(1, 2));
  EXPECT_NE(rows(1, 2), rows(1, 3));
  EXPECT_NE(rows(1, 2), rows(2, 2));
  EXPECT_NE(rows(1, 2), count_to(840));
}

TEST(EpochOrder, APermutationOfAllRowsDoesNotDependOnRowGroups) {
  const auto order = [](std::vector<int64_t> groups) {
    return rows_of(EpochOrder(std::move(groups), OrderOptions::of_all_rows(5, 1, true)));
  };
  EXPECT_EQ(order({1000}), order({300, 0, 200, 500}));
  EXPECT_EQ(sorted(order({1000})), count_to(1000));
  EXPECT_EQ(rows_of(EpochOrder({5, 6}, OrderOptions::of_all_rows(5, 1, false))), count_to(11));
}

TEST(EpochOrder, LanesAreContiguousAndWindowed) {
  const std::vector<int64_t> groups = {200, 100, 300};
  EpochOrder order(groups, {.seed = 9, .lanes = 8, .window = 10});
  const std::vector<int64_t> first_row = {0, 200, 300};
  for (int64_t lane = 0; lane < 8; ++lane) {
    std::vector<int64_t> stretch;
    for (const RowRange& part : order.segments_of_lane(lane)) {
      for (int64_t row = part.begin; row < part.end; ++row) {
        stretch.push_back(first_row[part.group] + row);
      }
    }
    ASSERT_EQ(static_cast<int64_t>(stretch.size()), order.lane_rows(lane));
    for (int64_t place = 0; place < order.lane_rows(lane); ++place) {
      const int64_t at = order.place_in_stretch(lane, place);
      EXPECT_EQ(at / 10, place / 10) << "a row left its window";
      EXPECT_EQ(order.row_of(place * 8 + lane), stretch[at]);
    }
  }
}

TEST(EpochOrder, DefaultWindowHolds65536RowsOverAllLanes) {
  EXPECT_EQ(EpochOrder({1 << 20}, {}).window(), 1024);
  EXPECT_EQ(EpochOrder({1 << 20}, {.lanes = 1}).window(), 65536);
}

TEST(EpochOrder, TextNamesWhatItDependsOn) {
  const auto text = [](std::vector<int64_t> groups, int64_t window) {
    return EpochOrder(std::move(groups), {.window = window}).text();
  };
  EXPECT_EQ(
      text({60, 40}, 0).find("64 lanes in a drawn order, shuffle_window 1024, 2 row groups ("), 0);
  EXPECT_EQ(text({60, 40}, 0), text({60, 40}, 1024));
  EXPECT_NE(text({60, 40}, 0), text({60, 40}, 8));
  EXPECT_NE(text({60, 40}, 0), text({50, 50}, 0)) << "other row groups, another order";
  EXPECT_EQ(EpochOrder({60, 40}, OrderOptions::of_all_rows(1, 2, true)).text(),
            "one permutation of all rows");
}

TEST(EpochOrder, RowGroupOrderKeepsRanksApart) {
  const std::vector<int64_t> groups = {5, 6, 7, 8};
  auto order = EpochOrder::by_row_groups(groups, {.seed = 1}, 2);
  EXPECT_EQ(order.num_rows(), 26);
  EXPECT_EQ(order.num_samples(), 30);        // the longer lane has 15 rows
  EXPECT_EQ(order.num_dense_samples(), 22);  // the shorter has 11
  std::vector<int64_t> seen;
  for (int64_t s = 0; s < order.num_samples(); ++s) {
    const int64_t row = order.row_of(s);
    if (row < 0) {
      EXPECT_EQ(s % 2, 0);
      EXPECT_GE(s, 22);
      continue;
    }
    EXPECT_EQ(row >= 11, s % 2 == 1) << "row " << row << " went to the wrong rank";
    seen.push_back(row);
  }
  EXPECT_EQ(sorted(seen), count_to(26));
  EXPECT_THROW(EpochOrder::by_row_groups(groups, {}, 3), UsageError);
  auto plain = EpochOrder::by_row_groups({2, 2}, {.shuffle = false}, 2);
  EXPECT_EQ(rows_of(plain), (std::vector<int64_t>{0, 2, 1, 3}));
}

TEST(EpochOrder, HoldsItsEndsWhenEmpty) {
  EpochOrder order({0, 0}, {});
  EXPECT_EQ(order.num_samples(), 0);
  EXPECT_TRUE(order.segments_of_lane(5).empty());
  EXPECT_EQ(EpochOrder({}, {}).num_samples(), 0);
  EXPECT_THROW(order.row_of(0), InternalError);
}

TEST(MicroBatchSamples, StepHoldsTheSameSamplesForEveryLayout) {
  constexpr int64_t kStep = 576, kSamples = 3000;
  for (int64_t s0 = 0; s0 < kSamples; s0 += kStep) {
    for (int64_t world : {1, 2, 3, 4, 64}) {
      for (int64_t accumulation : {1, 3}) {
        const int64_t batch = kStep / world / accumulation;
        std::vector<int64_t> seen;
        for (int64_t rank = 0; rank < world; ++rank) {
          BatchLayout layout{world, rank, accumulation, batch};
          ASSERT_EQ(layout.step_samples(), kStep);
          for (int64_t m = 0; m < accumulation; ++m) {
            auto micro_batch = micro_batch_samples(layout, s0, kSamples, m);
            EXPECT_LE(static_cast<int64_t>(micro_batch.size()), batch);
            for (int64_t s : micro_batch) EXPECT_EQ((s - s0) % world, rank);
            seen.insert(seen.end(), micro_batch.begin(), micro_batch.end());
          }
        }
        std::vector<int64_t> expected;
        for (int64_t s = s0; s < std::min(s0 + kStep, kSamples); ++s) expected.push_back(s);
        EXPECT_EQ(sorted(seen), expected) << world << " ranks, step at " << s0;
      }
    }
  }
}

TEST(MicroBatchSamples, ShortStepIsSpreadEvenly) {
  for (int64_t left = 1; left < 12; ++left) {
    std::set<size_t> sizes;
    for (int64_t rank = 0; rank < 2; ++rank) {
      for (int64_t m = 0; m < 2; ++m)
        sizes.insert(micro_batch_samples({2, rank, 2, 3}, 12, 12 + left, m).size());
    }
    EXPECT_LE(*sizes.rbegin() - *sizes.begin(), 1u) << left << " samples left";
  }
}

TEST(MicroBatchSamples, AccumulationAndRanksCutTheSame) {
  for (int64_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
    EXPECT_EQ(micro_batch_samples({1, 0, 2, 4}, 8, 100, micro_batch),
              micro_batch_samples({2, micro_batch, 1, 4}, 8, 100, 0));
  }
}

TEST(MicroBatchSamples, StepsPerEpoch) {
  EXPECT_EQ(steps_per_epoch(100, {2, 0, 1, 10}, false), 5);
  EXPECT_EQ(steps_per_epoch(101, {2, 0, 1, 10}, false), 6);
  EXPECT_EQ(steps_per_epoch(101, {2, 0, 1, 10}, true), 5);
  EXPECT_EQ(steps_per_epoch(0, {}, false), 0);
  EXPECT_THROW(steps_per_epoch(1, {2, 2, 1, 10}, false), UsageError);
  EXPECT_THROW(steps_per_epoch(1, {1, 0, 1, 0}, false), UsageError);
  EXPECT_THROW(steps_per_epoch(1, {1, 0, 1, int64_t{1} << 62}, false), UsageError);
}

}  // namespace
}  // namespace convoy::data
