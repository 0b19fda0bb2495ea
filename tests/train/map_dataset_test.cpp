#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/data/loader.h"
#include "convoy/dataset/batches.h"
#include "convoy/train/run_sums.h"
#include "tests/data/shuffle_testing.h"

namespace convoy::train {
namespace {

data::testing::Batches batches_of(dataset::BatchStream& stream, int64_t epoch) {
  data::testing::Batches out;
  stream.start(epoch, 0);
  while (const auto step = stream.next()) {
    for (const auto& micro_batch : step->micro_batches) {
      if (micro_batch.inputs.empty()) continue;
      const auto& rows = micro_batch.inputs.at("row");
      out.emplace_back(rows.const_data_ptr<int64_t>(),
                       rows.const_data_ptr<int64_t>() + rows.numel());
    }
  }
  return out;
}

std::shared_ptr<dataset::Dataset> row_numbers(int64_t rows) {
  return dataset::make_map_dataset(rows, [](const std::vector<int64_t>& wanted) {
    return nn::Bundle{{"row", at::tensor(wanted, at::kLong)}};
  });
}

TEST(MapDataset, HasARowForEachThatIsAskedFor) {
  EXPECT_THROW(dataset::make_map_dataset(8, nullptr), UsageError);
  const auto short_by_one = dataset::make_map_dataset(8, [](std::vector<int64_t> wanted) {
    wanted.pop_back();
    return nn::Bundle{{"row", at::tensor(wanted, at::kLong)}};
  });
  data::StreamOptions options;
  options.layout = {1, 0, 1, 8};
  EXPECT_THROW(short_by_one->open(options)->next(), UsageError);
}

TEST(MapDataset, DerivedColumnsAreNoPartOfTheSumOfRows) {
  const auto sum_of = [](double off, std::vector<std::string> derived) {
    const auto batch = [off](const std::vector<int64_t>& wanted) {
      const auto rows = at::tensor(wanted, at::kLong);
      return nn::Bundle{{"row", rows}, {"said", rows.to(at::kDouble) + off}};
    };
    const auto dataset = dataset::make_map_dataset(8, batch, {}, std::move(derived));
    data::StreamOptions options;
    options.layout = {1, 0, 1, 8};
    return sum_of_rows(*dataset->open(options)->next(), 0);
  };
  EXPECT_NE(sum_of(0, {}), sum_of(1e-9, {}));
  EXPECT_EQ(sum_of(0, {"said"}), sum_of(1e-9, {"said"}));
  EXPECT_NE(sum_of(0, {"said"}), sum_of(0, {"row", "said"}));
}

TEST(MapDataset, SortedRowsComeAsUniformDraws) {
  for (int64_t batch : {8, 32}) {
    const auto dataset = row_numbers(1000 * batch);
    data::testing::expect_shuffled(
        batch, [&](uint64_t seed, int64_t epoch, int64_t world, int64_t rank, int64_t rows) {
          data::StreamOptions options;
          options.layout = {world, rank, 1, rows};
          options.seed = seed;
          return batches_of(*dataset->open(options), epoch);
        });
  }
}

TEST(MapDataset, OrderDependsOnSeedAndEpochAlone) {
  const auto order = [](int64_t world, int64_t accumulation, int64_t batch) {
    std::vector<std::vector<int64_t>> steps(5);
    for (int64_t rank = 0; rank < world; ++rank) {
      data::StreamOptions options;
      options.layout = {world, rank, accumulation, batch};
      const auto stream = row_numbers(120)->open(options);
      stream->start(1, 0);
      for (auto& step : steps) {
        const auto next = stream->next();
        if (!next) return steps;
        for (const auto& micro_batch : next->micro_batches) {
          const auto& rows = micro_batch.inputs.at("row");
          for (int64_t i = 0; i < rows.numel(); ++i) step.push_back(rows[i].item<int64_t>());
        }
      }
    }
    for (auto& step : steps) std::ranges::sort(step);
    return steps;
  };
  const auto expected = order(1, 1, 24);
  EXPECT_EQ(order(3, 1, 8), expected);
  EXPECT_EQ(order(2, 3, 4), expected);
  EXPECT_EQ(order(1, 2, 12), expected);
}

}  // namespace
}  // namespace convoy::train
