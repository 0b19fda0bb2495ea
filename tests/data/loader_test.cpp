#include "convoy/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "tests/data/loader_testing.h"

namespace convoy::data {
namespace {

using testing::float_lists;
using testing::int_lists;
using testing::ints;
using testing::write_parquet;

TEST_F(LoaderTest, PadsOnTheRightToTheLongestOfTheMicroBatch) {
  write_parquet(folder_ / "x.parquet", {{"id", ints({5, 6, 7})},
                                        {"item", int_lists({{1}, {2, 3, 4}, {}})},
                                        {"price", float_lists({{1.5}, {2, 3, 4}, {}})}});
  auto chosen = options();
  chosen.shuffle = false;
  SessionLoader loader(ParquetFiles((folder_ / "x.parquet").string()), chosen);
  loader.start(0);
  auto batch = loader.next();
  ASSERT_TRUE(batch);
  const LoadedRows& micro_batch = batch->micro_batches.at(0);
  EXPECT_EQ(micro_batch.rows, 3);
  EXPECT_EQ(micro_batch.length, 3);
  EXPECT_EQ(micro_batch.columns.at("id").ints, (std::vector<int64_t>{5, 6, 7}));
  EXPECT_EQ(micro_batch.columns.at("item").ints, (std::vector<int64_t>{1, 0, 0, 2, 3, 4, 0, 0, 0}));
  EXPECT_EQ(micro_batch.columns.at("price").floats,
            (std::vector<float>{1.5, 0, 0, 2, 3, 4, 0, 0, 0}));
  EXPECT_EQ(micro_batch.lengths, (std::vector<int64_t>{1, 3, 0}));
  EXPECT_EQ(micro_batch.sample_offset, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_FALSE(loader.next());
  EXPECT_FALSE(loader.next());
  EXPECT_EQ(loader.stats().rows, 3);
  EXPECT_EQ(loader.stats().short_rows, 2);
  EXPECT_EQ(loader.stats().truncated_rows, 0);
}

TEST_F(LoaderTest, CutsLongListsAtEitherEnd) {
  auto first_items = [&](Truncation truncation) {
    write_parquet(folder_ / "x.parquet", {{"item", int_lists({{1, 2, 3, 4, 5}, {6, 7, 8}})}});
    LoaderOptions chosen;
    chosen.selection.columns = {"item"};
    chosen.shuffle = false;
    chosen.max_length = 3;
    chosen.truncation = truncation;
    SessionLoader loader(ParquetFiles((folder_ / "x.parquet").string()), chosen);
    loader.start(0);
    auto items = loader.next()->micro_batches[0].columns.at("item").ints;
    EXPECT_EQ(loader.stats().truncated_rows, 1);
    return items;
  };
  EXPECT_EQ(first_items(Truncation::KeepLast), (std::vector<int64_t>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(first_items(Truncation::KeepFirst), (std::vector<int64_t>{1, 2, 3, 6, 7, 8}));
}

TEST_F(LoaderTest, EveryLayoutSeesTheSameGlobalBatches) {
  const ParquetFiles dataset(write_rows(1000, 300));
  auto global_steps = [&](int64_t world, int64_t accumulation, int64_t budget) {
    std::vector<Samples> all;
    for (int64_t rank = 0; rank < world; ++rank) {
      auto chosen = options({world, rank, accumulation, 64 / world / accumulation});
      chosen.memory_budget = budget;
      chosen.shuffle_window = 16;
      SessionLoader loader(dataset, chosen);
      auto steps = run(loader, 3);
      EXPECT_EQ(std::ssize(steps), loader.steps_per_epoch());
      all.resize(steps.size());
      for (size_t i = 0; i < steps.size(); ++i) all[i].merge(steps[i]);
    }
    return all;
  };
  const auto expected = global_steps(1, 1, 1 << 20);
  ASSERT_EQ(expected.size(), 16u);
  std::set<int64_t> seen;
  for (const Samples& step : expected) {
    for (const auto& [sample, id] : step) seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 1000u);
  for (int64_t world : {1, 2, 4, 64}) {
    EXPECT_EQ(global_steps(world, 1, 1 << 20), expected) << world << " ranks";
    EXPECT_EQ(global_steps(world, 1, 0), expected) << world << " ranks, streaming";
  }
  EXPECT_EQ(global_steps(2, 4, 1 << 20), expected);
}

TEST_F(LoaderTest, OrderDependsNeitherOnRanksNorOnMemory) {
  const ParquetFiles dataset(write_rows(1000, 300));
  std::set<std::string> orders;
  const auto samples = [&](int64_t world, int64_t accumulation, int64_t budget) {
    Samples all;
    for (int64_t rank = 0; rank < world; ++rank) {
      auto chosen = options({world, rank, accumulation, 2});
      chosen.memory_budget = budget;
      chosen.shuffle_window = 5;
      SessionLoader loader(dataset, chosen);
      orders.insert(loader.order());
      for (Samples& step : run(loader, 2)) all.merge(step);
    }
    return all;
  };
  const auto expected = samples(1, 1, 1 << 20);
  ASSERT_EQ(expected.size(), 1000u);
  for (int64_t world : {3, 5, 6, 7, 40, 100}) {
    EXPECT_EQ(samples(world, 1, 1 << 20), expected) << world << " ranks";
    EXPECT_EQ(samples(world, 2, 0), expected) << world << " ranks, streaming";
  }
  EXPECT_EQ(orders.size(), 1u);
}

TEST_F(LoaderTest, RanksThatDoNotDivide64CoverAllRows) {
  const ParquetFiles dataset(write_rows(500, 100));
  for (Partition partition : {Partition::Rows, Partition::RowGroups}) {
    std::multiset<int64_t> seen;
    std::set<size_t> num_steps;
    for (int64_t rank = 0; rank < 3; ++rank) {
      auto chosen = options({3, rank, 1, 8});
      chosen.partition = partition;
      SessionLoader loader(dataset, chosen);
      auto steps = run(loader, 0);
      num_steps.insert(steps.size());
      for (const Samples& step : steps) {
        for (const auto& [sample, id] : step) seen.insert(id);
      }
    }
    EXPECT_EQ(num_steps.size(), 1u) << "ranks made different numbers of steps";
    EXPECT_EQ(seen.size(), 500u);
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 500u);
  }
}

TEST_F(LoaderTest, ResumeInMidEpochEqualsTheTail) {
  const ParquetFiles dataset(write_rows(700, 90));
  for (int64_t budget : {0, 1 << 20}) {
    auto chosen = options({1, 0, 1, 48});
    chosen.memory_budget = budget;
    chosen.shuffle_window = 4;
    SessionLoader loader(dataset, chosen);
    const auto whole = run(loader, 1);
    for (size_t step : {size_t{1}, size_t{7}, whole.size() - 1, whole.size()}) {
      SessionLoader fresh(dataset, chosen);
      const std::vector<Samples> tail(whole.begin() + static_cast<std::ptrdiff_t>(step),
                                      whole.end());
      EXPECT_EQ(run(fresh, 1, std::min<int64_t>(700, static_cast<int64_t>(step) * 48)), tail);
    }
    // And on two ranks, in the middle of a step of one.
    Samples two;
    for (int64_t rank = 0; rank < 2; ++rank) {
      chosen.layout = {2, rank, 1, 48};
      SessionLoader half(dataset, chosen);
      for (Samples& step : run(half, 1, 48 * 3)) two.merge(step);
    }
    Samples expected;
    for (size_t step = 3; step < whole.size(); ++step) {
      expected.insert(whole[step].begin(), whole[step].end());
    }
    EXPECT_EQ(two, expected);
  }
}

TEST_F(LoaderTest, EpochsDifferAndRepeat) {
  const ParquetFiles dataset(write_rows(300, 50));
  SessionLoader loader(dataset, options());
  const auto first = run(loader, 0);
  EXPECT_NE(run(loader, 1), first);
  EXPECT_EQ(run(loader, 0), first);
}

TEST_F(LoaderTest, EvaluationCoversEveryRowOnceInFileOrder) {
  const ParquetFiles dataset(write_rows(101, 30));
  for (int64_t world : {1, 2, 64, 200}) {
    Samples all;
    for (int64_t rank = 0; rank < world; ++rank) {
      auto chosen = options({world, rank, 1, 7});
      chosen.shuffle = false;
      chosen.every_rank_needs_rows = false;
      SessionLoader loader(dataset, chosen);
      auto steps = run(loader, 0);
      EXPECT_EQ(std::ssize(steps), loader.steps_per_epoch());
      for (Samples& step : steps) all.merge(step);
    }
    ASSERT_EQ(all.size(), 101u);
    for (const auto& [sample, id] : all) EXPECT_EQ(sample, id);
  }
}

TEST_F(LoaderTest, EmptyMicroBatchesHoldOneRowOfPadding) {
  const ParquetFiles dataset(write_rows(3, 3));
  auto chosen = options({2, 1, 2, 2});
  SessionLoader loader(dataset, chosen);
  loader.start(0);
  auto batch = loader.next();
  ASSERT_TRUE(batch);
  ASSERT_EQ(batch->micro_batches.size(), 2u);
  EXPECT_EQ(batch->micro_batches[0].num_samples, 1);
  const LoadedRows& empty = batch->micro_batches[1];
  EXPECT_EQ(empty.num_samples, 0);
  EXPECT_EQ(empty.rows, 1);
  EXPECT_EQ(empty.lengths, std::vector<int64_t>{0});
  EXPECT_EQ(empty.columns.at("id").ints, std::vector<int64_t>{0});
  EXPECT_EQ(empty.columns.at("item").ints, std::vector<int64_t>{0});
  EXPECT_EQ(empty.columns.at("price").floats, std::vector<float>{0});
}

TEST_F(LoaderTest, DropLastLeavesOutTheShortStep) {
  const ParquetFiles dataset(write_rows(100, 50));
  auto chosen = options({1, 0, 1, 30});
  chosen.drop_last = true;
  SessionLoader loader(dataset, chosen);
  EXPECT_EQ(loader.steps_per_epoch(), 3);
  auto steps = run(loader, 0);
  ASSERT_EQ(steps.size(), 3u);
  for (const Samples& step : steps) EXPECT_EQ(step.size(), 30u);
  chosen.layout.per_device_batch = 101;
  EXPECT_MESSAGE(SessionLoader(dataset, chosen), "dropping the last step leaves none");
}

TEST_F(LoaderTest, DataThatFitsIsDecodedOnce) {
  const ParquetFiles dataset(write_rows(2000, 500));
  SessionLoader loader(dataset, options());
  for (int64_t epoch = 0; epoch < 3; ++epoch) run(loader, epoch);
  EXPECT_EQ(loader.stats().decoded_rows, 2000);
  EXPECT_EQ(loader.stats().held_bytes, dataset.decoded_bytes(options().selection));
}

TEST_F(LoaderTest, LargerDataIsStreamedInBoundedMemory) {
  constexpr int64_t kRows = 60000;
  const ParquetFiles dataset(write_rows(kRows, 500));
  auto chosen = options({1, 0, 1, 256});
  chosen.memory_budget = 1 << 20;
  chosen.shuffle_window = 32;
  ASSERT_GT(dataset.decoded_bytes(chosen.selection), 3 << 20);
  SessionLoader loader(dataset, chosen);
  std::vector<int64_t> ids;
  for (const Samples& step : run(loader, 0)) {
    for (const auto& [sample, id] : step) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  ASSERT_EQ(ids.size(), static_cast<size_t>(kRows));
  EXPECT_TRUE(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
  EXPECT_LT(loader.stats().peak_bytes, chosen.memory_budget);
  EXPECT_GT(loader.stats().peak_bytes, 0);
  // Each of 64 lanes passes over at most one row group to reach its start.
  EXPECT_LT(loader.stats().decoded_rows, kRows + 2 * 64 * 500);
}

TEST_F(LoaderTest, RanksThatDoNotDivide64ReadMoreAndSaySo) {
  const ParquetFiles dataset(write_rows(3000, 50));
  for (const auto& [world, times] :
       std::map<int64_t, int64_t>{{1, 1}, {2, 1}, {3, 3}, {6, 3}, {7, 7}}) {
    for (int64_t accumulation : {1, 3}) {
      auto chosen = options({world, world - 1, accumulation, 64});
      chosen.memory_budget = 0;
      chosen.shuffle_window = 1;
      SessionLoader loader(dataset, chosen);
      ASSERT_EQ(loader.warnings().size(), times == 1 ? 1u : 2u) << world;  // one of windows
      if (times > 1) {
        const auto said = fmt::format(
            "{} ranks do not divide its 64 lanes, so each decodes {} times the rows", world, times);
        EXPECT_NE(loader.warnings()[1].find(said), std::string::npos) << loader.warnings()[1];
      }
      run(loader, 0);
      // A lane passes over at most one row group at either end.
      EXPECT_LT(loader.stats().decoded_rows, 3000 * times / world + 2 * 64 * 50)
          << world << " ranks, accumulation " << accumulation;
      chosen.memory_budget = 1 << 20;
      EXPECT_EQ(SessionLoader(dataset, chosen).warnings().size(), 1u);
    }
  }
}

TEST_F(LoaderTest, ErrorsOfTheThreadReachTheCaller) {
  write_parquet(folder_ / "x.parquet", {{"item", int_lists({{1}, {2}, {99}})}}, 1);
  LoaderOptions chosen;
  chosen.selection = {{"item"}, {{"item", {50}}}};
  chosen.shuffle = false;
  chosen.layout.per_device_batch = 1;
  SessionLoader loader(ParquetFiles((folder_ / "x.parquet").string()), chosen);
  loader.start(0);
  EXPECT_TRUE(loader.next());
  EXPECT_TRUE(loader.next());
  EXPECT_MESSAGE(loader.next(), "holds id 99; expected 0 to 50");
  EXPECT_MESSAGE(loader.next(), "holds id 99");
  loader.start(0);
  EXPECT_TRUE(loader.next());
}

TEST_F(LoaderTest, StopsCleanlyAtAnyTime) {
  const ParquetFiles dataset(write_rows(5000, 500));
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 50; ++round) {
    auto chosen = options();
    chosen.memory_budget = round % 2 ? 0 : 1 << 20;
    chosen.shuffle_window = 32;
    chosen.prefetch_depth = 1 + round % 3;
    chosen.layout.per_device_batch = 8;
    SessionLoader loader(dataset, chosen);
    if (round % 5 == 0) continue;
    loader.start(0);
    for (int i = 0; i < round % 4; ++i) EXPECT_TRUE(loader.next());
    loader.start(1, 8);
    if (round % 3 == 0) loader.stop();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(LoaderTest, CountsTheTimeItWaited) {
  SessionLoader loader(ParquetFiles(write_rows(1000, 500)), options());
  EXPECT_MESSAGE(loader.next(), "call start(epoch) first");
  EXPECT_GE(loader.wait_seconds(), 0);
  loader.start(0);
  loader.next();
  EXPECT_GT(loader.wait_seconds(), 0);
  EXPECT_LT(loader.wait_seconds(), 10);
}

TEST_F(LoaderTest, RefusesOptionsThatMakeNoSense) {
  const ParquetFiles dataset(write_rows(10, 10));
  EXPECT_MESSAGE(SessionLoader(dataset, options({11, 0, 1, 1})), "holds 10 rows for 11 ranks");
  EXPECT_MESSAGE(SessionLoader(dataset, options({2, 2, 1, 1})), "rank 2 of 2");
  EXPECT_MESSAGE(SessionLoader(dataset, options({1, 0, 1, 0})), "batch 0");
  auto chosen = options();
  chosen.max_length = 0;
  EXPECT_MESSAGE(SessionLoader(dataset, chosen), "max_length is 0");
  chosen = options();
  chosen.selection.columns.push_back("itm");
  EXPECT_MESSAGE(SessionLoader(dataset, chosen), "did you mean 'item'?");
  SessionLoader loader(dataset, options());
  EXPECT_MESSAGE(loader.start(0, 11), "cannot start epoch 0 at sample 11");
  write_parquet(folder_ / "none.parquet", {{"item", int_lists({})}});
  chosen.selection.columns = {"item"};
  EXPECT_MESSAGE(SessionLoader(ParquetFiles((folder_ / "none.parquet").string()), chosen),
                 "holds no rows");
}

}  // namespace
}  // namespace convoy::data
