#include "convoy/tasks/session/swap_values.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "convoy/base/files.h"
#include "tests/data/parquet_testing.h"

namespace convoy::tasks {
namespace {

TEST(SwapValues, AreAUniformSampleOfTheColumn) {
  const auto folder = unique_folder("convoy-swap");
  constexpr int64_t kRows = 30000, kLength = 10;  // more than are kept
  std::vector<std::vector<int64_t>> ids;
  std::vector<std::vector<float>> prices;
  for (int64_t row = 0; row < kRows; ++row) {
    auto& own = ids.emplace_back();
    for (int64_t t = 0; t < kLength; ++t) own.push_back(1 + (row * kLength + t) / 30000);
    prices.emplace_back(own.begin(), own.end());
  }
  const std::vector<models::SessionFeature> features{{"items", true, 11}, {"price", false, 0}};
  const auto drawn = [&](const char* name, int64_t seed = 42) {
    const auto file = folder / name;
    data::testing::write_parquet(
        file,
        {{"items", data::testing::int_lists(ids)}, {"price", data::testing::float_lists(prices)}},
        /*row_group_size=*/7000);
    return draw_swap_values(data::ParquetFiles(file.string()), {{"items", "price"}, {}}, features,
                            seed, "items");
  };
  const auto values = drawn("rows.parquet");
  // Ten parts of the column have a number each.
  const auto& items = values.at("items");
  ASSERT_EQ(items.numel(), 65536);
  for (int64_t number = 1; number <= 10; ++number) {
    EXPECT_NEAR(items.eq(number).sum().item<double>() / 65536, 0.1,
                4.5 * std::sqrt(0.1 * 0.9 / 65536))
        << number;
  }
  EXPECT_EQ(values.at("price").scalar_type(), at::kFloat);
  EXPECT_EQ(values.at("price").numel(), 65536);
  EXPECT_TRUE(at::equal(drawn("again.parquet").at("items"), items));
  EXPECT_FALSE(at::equal(drawn("again.parquet", 43).at("items"), items)) << "another seed";
  ids.resize(3);
  prices.resize(3);
  EXPECT_EQ(drawn("few.parquet").at("price").numel(), 3 * kLength) << "all where there are fewer";
  ids[1].insert(ids[1].end(), {0, 0});
  prices[1].insert(prices[1].end(), {0, 0});
  const auto padded = drawn("padded.parquet");
  EXPECT_EQ(padded.at("items").numel(), 3 * kLength) << "padding is no value";
  EXPECT_EQ(padded.at("price").numel(), 3 * kLength);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace convoy::tasks
