#include "tests/data/shuffle_testing.h"

#include "tests/data/loader_testing.h"

namespace convoy::data {
namespace {

class ShuffleTest : public LoaderTest {
 protected:
  /// Sessions of one item, the row's number, in row groups of `group_rows`.
  void expect_sessions_shuffled(int64_t group_rows, int64_t budget, int64_t window) {
    for (int64_t batch : {8, 32}) {
      const ParquetFiles dataset(write_rows(1000 * batch, group_rows));
      testing::expect_shuffled(
          batch, [&](uint64_t seed, int64_t epoch, int64_t world, int64_t rank, int64_t rows) {
            auto chosen = options({world, rank, 1, rows});
            chosen.seed = seed;
            chosen.memory_budget = budget;
            chosen.shuffle_window = window;
            SessionLoader loader(dataset, chosen);
            testing::Batches out;
            loader.start(epoch);
            while (auto step = loader.next()) {
              for (const auto& micro_batch : step->micro_batches)
                out.push_back(micro_batch.columns.at("id").ints);
            }
            return out;
          });
    }
  }
};

TEST_F(ShuffleTest, SortedRowsOfOneRowGroupComeAsUniformDraws) {
  expect_sessions_shuffled(1 << 20, 1 << 28, 0);
}

TEST_F(ShuffleTest, SortedRowsOfManyRowGroupsComeAsUniformDraws) {
  expect_sessions_shuffled(500, 1 << 28, 0);
}

TEST_F(ShuffleTest, AWindowOfAllRowsIsAPermutationOfAllRows) {
  expect_sessions_shuffled(500, 1 << 28, 32000);
}

TEST_F(ShuffleTest, WindowsOfAStreamSayWhatTheyMix) {
  const ParquetFiles dataset(write_rows(6400, 500));
  auto chosen = options();
  chosen.memory_budget = 0;
  chosen.shuffle_window = 20;
  SessionLoader loader(dataset, chosen);
  ASSERT_EQ(loader.warnings().size(), 2u);
  EXPECT_NE(loader.warnings()[0].find("a row moves among the 20 rows around it and comes beside "
                                      "rows from 63 other places of the file"),
            std::string::npos)
      << loader.warnings()[0];
  EXPECT_NE(loader.warnings()[0].find("6,400 or more shuffles all rows"), std::string::npos);
  chosen.shuffle = false;
  EXPECT_TRUE(SessionLoader(dataset, chosen).warnings().empty());
}

TEST_F(ShuffleTest, LanesOfAStreamAreDrawnForEachEpoch) {
  std::set<std::pair<int64_t, int64_t>> places;  // of the file and of the step
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const EpochOrder order({64000}, {.seed = 3, .epoch = epoch, .window = 10});
    for (int64_t s = 0; s < 8; ++s) places.insert({order.row_of(s) / 1000, s});
  }
  EXPECT_GT(places.size(), 120u) << "a batch of 8 comes from the same places in every epoch";
}

TEST_F(ShuffleTest, OrderDependsOnFilesAndOptionsNeverOnMemory) {
  const ParquetFiles dataset(write_rows(3000, 500));
  auto chosen = options();
  const auto order = SessionLoader(dataset, chosen).order();
  EXPECT_EQ(order, "one permutation of all rows");
  chosen.memory_budget = dataset.decoded_bytes(chosen.selection);
  EXPECT_EQ(SessionLoader(dataset, chosen).order(), order);
  --chosen.memory_budget;
  EXPECT_MESSAGE(SessionLoader(dataset, chosen), "shuffled as a whole");
  EXPECT_MESSAGE(SessionLoader(dataset, chosen),
                 "or a shuffle_window of 46 to read it as a stream");
  chosen.shuffle_window = 46;
  const auto streamed = SessionLoader(dataset, chosen).order();
  chosen.memory_budget = 1 << 28;
  EXPECT_EQ(SessionLoader(dataset, chosen).order(), streamed);
  EXPECT_NE(order, streamed);
}

}  // namespace
}  // namespace convoy::data
