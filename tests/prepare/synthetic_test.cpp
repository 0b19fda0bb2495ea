#include "convoy/prepare/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "convoy/formats/schema.h"
#include "convoy/prepare/items.h"
#include "tests/prepare/sessions_testing.h"

namespace convoy::prepare {
namespace {

using testing::error_of;
using testing::Folder;
using testing::int_rows;

SyntheticOptions small(const std::filesystem::path& output) {
  SyntheticOptions options;
  options.output = output;
  options.num_items = 200;
  options.num_rows = 3000;
  return options;
}

TEST(Synthetic, SameSeedGivesTheSameBytes) {
  Folder folder;
  SyntheticOptions options = small(folder / "a");
  options.features = true;
  make_synthetic(options);
  options.output = folder / "b";
  make_synthetic(options);
  options.output = folder / "c";
  options.seed = 43;
  make_synthetic(options);
  for (const char* file :
       {"train.parquet", "valid.parquet", "items.parquet", "schema.json", "category.parquet"}) {
    EXPECT_EQ(read_file(folder / "a" / file), read_file(folder / "b" / file)) << file;
  }
  EXPECT_NE(read_file(folder / "a/train.parquet"), read_file(folder / "c/train.parquet"));
}

TEST(Synthetic, MostSessionsAreShortWhereTheMeanIsSaid) {
  Folder folder;
  SyntheticOptions options = synthetic_like("rees46");
  options.output = folder / "a";
  options.num_items = 300;
  make_synthetic(options);
  double sum = 0, cut = 0, shortest = 0;
  const auto rows = int_rows(folder / "a/train.parquet", "item_id-list");
  ASSERT_EQ(rows.size(), 20000);
  for (const auto& row : rows) {
    ASSERT_GE(row.size(), 2);
    ASSERT_LE(row.size(), 20);
    sum += static_cast<double>(row.size());
    cut += row.size() == 20;
    shortest += row.size() == 2;
  }
  // Geometric from 2 with mean 6: a fifth stops at once, .8^18 reaches 20.
  EXPECT_NEAR(shortest / 20000, 0.2, 0.0127);
  EXPECT_NEAR(cut / 20000, std::pow(0.8, 18), 0.0042);
  EXPECT_NEAR(sum / 20000, 6 - 4 * std::pow(0.8, 18), 0.14);
  EXPECT_NE(error_of<UsageError>([] { synthetic_like("rees47"); }).find("expected rees46"),
            std::string::npos);
  options.mean_length = 1.5;
  EXPECT_NE(error_of<UsageError>([&] { make_synthetic(options); }).find("--mean-length is 1.5"),
            std::string::npos);
}

TEST(Synthetic, FilesAgreeWithTheSchema) {
  Folder folder;
  SyntheticOptions options = small(folder / "a");
  options.features = true;
  options.min_length = 3;
  options.max_length = 7;
  options.row_group_size = 1000;
  const SyntheticReport report = make_synthetic(options);
  EXPECT_EQ(report.num_valid_rows, 300);
  EXPECT_EQ(data::ParquetFile(folder / "a/train.parquet").group_rows(),
            (std::vector<int64_t>{1000, 1000, 1000}));
  const auto schema = formats::Schema::load(folder / "a/schema.json");
  EXPECT_EQ(schema.item_id().int_domain->max, 200);
  EXPECT_EQ(schema.find("category-list")->int_domain->max, 50);
  const ItemNames items = ItemNames::load(folder / "a/items.parquet");
  ASSERT_EQ(items.size(), 200);
  std::vector<int64_t> counts(201, 0);
  size_t shortest = 99;
  size_t longest = 0;
  for (const auto& row : int_rows(folder / "a/train.parquet", "item_id-list")) {
    shortest = std::min(shortest, row.size());
    longest = std::max(longest, row.size());
    for (int64_t id : row) ++counts.at(static_cast<size_t>(id));
  }
  EXPECT_EQ(shortest, 3u);
  EXPECT_EQ(longest, 7u);
  EXPECT_EQ(counts[0], 0);
  for (int64_t id = 1; id <= 200; ++id) {
    ASSERT_EQ(items.count(id), counts[static_cast<size_t>(id)]) << id;
  }
}

TEST(Synthetic, NextItemIsLearnable) {
  Folder folder;
  make_synthetic(small(folder / "a"));
  std::map<int64_t, std::map<int64_t, int64_t>> follows;
  std::map<int64_t, int64_t> popularity;
  for (const auto& row : int_rows(folder / "a/train.parquet", "item_id-list")) {
    for (size_t i = 0; i < row.size(); ++i) {
      ++popularity[row[i]];
      if (i > 0) ++follows[row[i - 1]][row[i]];
    }
  }
  auto most = [](const std::map<int64_t, int64_t>& counts) {
    auto by_count = [](const auto& a, const auto& b) { return a.second < b.second; };
    return std::max_element(counts.begin(), counts.end(), by_count)->first;
  };
  const int64_t favourite = most(popularity);
  int64_t rows = 0;
  int64_t by_bigram = 0;
  int64_t by_popularity = 0;
  for (const auto& row : int_rows(folder / "a/valid.parquet", "item_id-list")) {
    const int64_t target = row.back();
    ++rows;
    by_bigram += most(follows[row[row.size() - 2]]) == target;
    by_popularity += favourite == target;
  }
  EXPECT_GT(by_bigram, rows * 3 / 10);
  EXPECT_GT(by_bigram, 3 * by_popularity);
}

TEST(Synthetic, RefusesImpossibleSizes) {
  SyntheticOptions options = small("unused");
  auto message = [&] { return error_of<UsageError>([&] { make_synthetic(options); }); };
  options.num_items = 1;
  EXPECT_NE(message().find("--items is 1; expected 2 to"), std::string::npos) << message();
  options.num_items = 10;
  options.min_length = 30;
  EXPECT_NE(message().find("--min-length is 30; expected 2 to 20"), std::string::npos) << message();
  EXPECT_FALSE(std::filesystem::exists("unused"));
}

}  // namespace
}  // namespace convoy::prepare
