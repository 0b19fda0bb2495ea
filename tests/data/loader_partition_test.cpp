#include "tests/data/loader_testing.h"

#include <algorithm>
#include <set>

#include "convoy/base/error.h"

// Shares of ranks: by rows, or by whole row groups as Transformers4Rec deals them.
namespace convoy::data {
namespace {

TEST_F(LoaderTest, WholeRowGroupsGoToRanks) {
  const ParquetFiles dataset(write_rows(400, 100));
  std::set<int64_t> all;
  for (int64_t rank = 0; rank < 2; ++rank) {
    auto chosen = options({2, rank, 1, 16});
    chosen.partition = Partition::RowGroups;
    SessionLoader loader(dataset, chosen);
    EXPECT_TRUE(loader.warnings().empty());
    for (const Samples& step : run(loader, 0)) {
      for (const auto& [sample, id] : step) {
        EXPECT_EQ(id / 200, rank);
        all.insert(id);
      }
    }
    EXPECT_MESSAGE(loader.start(0, 33), "cannot start at sample 33 on 2 ranks");
  }
  EXPECT_EQ(all.size(), 400u);
}

TEST_F(LoaderTest, UnequalRowGroupsStillGiveEqualBatches) {
  const ParquetFiles dataset(write_rows(150, 100));  // groups of 100 and 50 rows
  std::vector<int64_t> rows, batches;
  for (int64_t rank = 0; rank < 2; ++rank) {
    auto chosen = options({2, rank, 2, 10});
    chosen.partition = Partition::RowGroups;
    SessionLoader loader(dataset, chosen);
    int64_t count = 0, steps = 0;
    for (const Samples& step : run(loader, 0)) {
      count += std::ssize(step);
      ++steps;
    }
    rows.push_back(count);
    batches.push_back(steps * 2);
    const auto shares = loader.partition_summary();
    ASSERT_EQ(shares.size(), 2u);
    EXPECT_EQ(shares[rank].rows, count);
    EXPECT_EQ(shares[rank].batches, steps * 2);
  }
  EXPECT_EQ(rows, (std::vector<int64_t>{100, 50}));
  EXPECT_EQ(batches, (std::vector<int64_t>{10, 10}));
}

TEST_F(LoaderTest, RowGroupsThatDoNotDivideAreCutInMemory) {
  const std::string path = write_rows(100, 40);  // 3 row groups
  auto chosen = options({2, 0, 1, 10});
  chosen.partition = Partition::RowGroups;
  SessionLoader loader(ParquetFiles(path), chosen);
  ASSERT_EQ(loader.warnings().size(), 1u);
  EXPECT_NE(loader.warnings()[0].find("has 3 row groups, not a multiple of 2 ranks"),
            std::string::npos);
  EXPECT_NE(loader.warnings()[0].find("convoy data repartition " + path + " --for-ranks 2"),
            std::string::npos);
  EXPECT_EQ(loader.partition_summary()[0].rows, 50);
  EXPECT_EQ(loader.partition_summary()[1].rows, 50);
}

TEST_F(LoaderTest, PartitionSummaryCountsWhatIsDelivered) {
  const ParquetFiles dataset(write_rows(101, 30));
  for (bool drop_last : {false, true}) {
    for (int64_t rank = 0; rank < 4; ++rank) {
      auto chosen = options({4, rank, 1, 8});
      chosen.drop_last = drop_last;
      SessionLoader loader(dataset, chosen);
      const RankShare share = loader.partition_summary()[rank];
      const auto steps = run(loader, 0);
      EXPECT_EQ(share.batches, std::ssize(steps));
      EXPECT_EQ(share.rows, loader.stats().rows);
    }
  }
}

}  // namespace
}  // namespace convoy::data
