#include "convoy/data/tools/inspect.h"

#include <gtest/gtest.h>

#include <numeric>

#include "convoy/prepare/sessions_writer.h"
#include "convoy/prepare/synthetic.h"
#include "tests/data/parquet_testing.h"
#include "tests/prepare/sessions_testing.h"

namespace convoy::data {
namespace {

using prepare::testing::error_of;
using prepare::testing::Folder;

/// Rows 0 .. n - 1; row i holds i % 3 + 1 items, all i + 1.
std::filesystem::path write_sessions(const std::filesystem::path& file, int64_t rows,
                                     int64_t row_group_size) {
  prepare::SessionWriter writer(file, file, {{"item_id-list", false}, {"price-list", true}},
                                row_group_size);
  for (int64_t row = 0; row < rows; ++row) {
    writer.ints(0).insert(writer.ints(0).end(), static_cast<size_t>(row % 3 + 1), row + 1);
    writer.floats(1).insert(writer.floats(1).end(), static_cast<size_t>(row % 3 + 1), 0.5f);
    writer.end_row(row);
  }
  writer.close();
  return file;
}

TEST(Inspect, SaysWhatTrainingRefuses) {
  Folder folder;
  const auto file = folder / "x.parquet";
  testing::write_parquet(file, {{"item_id-list", testing::int_lists({{1, 2}, {-1, 9}})}});
  folder.write("schema.json", R"({"feature": [{"name": "item_id-list", "type": "INT",
      "valueCount": {}, "intDomain": {"max": 8}, "annotation": {"tag": ["item_id"]}}]})");
  const auto report = inspect(file.string(), {1, 1});
  ASSERT_EQ(report.advice.size(), 2U);
  EXPECT_HAS(report.advice[0], "reach 9 but the schema ends at 8; training will refuse them");
  EXPECT_HAS(report.advice[1], "begin at -1, below 0; training will refuse them");
}

TEST(Inspect, TellsWhatAFileHolds) {
  Folder folder;
  const auto file = write_sessions(folder / "x.parquet", 10, 4);
  const InspectReport report = inspect(file.string(), {4, 2});
  EXPECT_EQ(report.num_rows, 10);
  EXPECT_EQ(report.num_groups, 3);
  EXPECT_EQ(report.min_group_rows, 2);
  EXPECT_EQ(report.median_group_rows, 4);
  EXPECT_EQ(report.max_group_rows, 4);
  EXPECT_EQ(report.list_column, "item_id-list");
  EXPECT_EQ(report.min_length, 1);
  EXPECT_EQ(report.max_length, 3);
  EXPECT_DOUBLE_EQ(report.mean_length, 1.9);
  EXPECT_EQ(report.num_short_rows, 4);
  EXPECT_EQ(report.min_id, 1);
  EXPECT_EQ(report.max_id, 10);
  EXPECT_FALSE(report.schema_max_id);
  // Transformers4Rec: ceil(3 / 4) = 1 row group each, nothing for the last rank.
  EXPECT_EQ(report.ranks[0].group_rows, 4);
  EXPECT_EQ(report.ranks[3].groups, 0);
  ASSERT_EQ(report.advice.size(), 2u);
  EXPECT_NE(report.advice[0].find("the ranks get 0 to 2 batches"), std::string::npos);
  EXPECT_NE(report.advice[0].find(file.string() + " --for-ranks 4"), std::string::npos);
  const std::string text = to_text(report);
  EXPECT_NE(text.find("row groups   3 of 2 to 4 rows (median 4)"), std::string::npos) << text;
  EXPECT_NE(text.find("price-list"), std::string::npos) << text;
  const Json json = to_json(report);
  EXPECT_EQ(json["rows"], 10);
  EXPECT_EQ(json["ranks"][3]["by_row_groups"]["batches"], 0);
  EXPECT_EQ(json["ids"]["max"], 10);
}

TEST(Inspect, SharesByRowsAreEqual) {
  for (int64_t rows : {1, 7, 64, 65, 1000}) {
    for (int64_t ranks : {1, 2, 3, 8}) {
      const auto shares = rank_shares({rows}, ranks, 4);
      int64_t sum = 0;
      for (const DealtShare& share : shares) {
        sum += share.rows;
        EXPECT_EQ(share.batches, shares.front().batches);
        EXPECT_LE(shares.front().rows - share.rows, 1);
        EXPECT_GE(shares.front().rows, share.rows);
      }
      EXPECT_EQ(sum, rows);
    }
  }
}

TEST(Inspect, ComparesIdsWithTheSchema) {
  Folder folder;
  prepare::SyntheticOptions options;
  options.output = folder.path();
  options.num_items = 50;
  options.num_rows = 100;
  prepare::make_synthetic(options);
  InspectReport report = inspect((folder / "train.parquet").string(), {});
  EXPECT_EQ(report.schema_max_id, 50);
  EXPECT_TRUE(report.advice.empty());
  EXPECT_EQ(report.columns[1].tags.front(), "item_id");
  write_sessions(folder / "train.parquet", 60, 100);
  report = inspect((folder / "train.parquet").string(), {});
  EXPECT_NE(report.advice[0].find("reach 60 but the schema ends at 50"), std::string::npos);
}

TEST(Inspect, Refuses) {
  Folder folder;
  EXPECT_NE(error_of([&] { inspect((folder / "none.parquet").string(), {}); }).find("none.parquet"),
            std::string::npos);
  const auto file = folder.write("cut.parquet", "PAR1....");
  EXPECT_NE(error_of([&] { inspect(file.string(), {}); }).find("cut short"), std::string::npos);
  EXPECT_NE(error_of<UsageError>([&] { inspect(file.string(), {0, 1}); }).find("--ranks is 0"),
            std::string::npos);
}

TEST(Inspect, NoOtherColumnStandsInForTheItems) {
  Folder folder;
  const auto file = folder / "x.parquet";
  testing::write_parquet(file, {{"user_id", testing::ints({1, 1, 2})},
                                {"item_id", testing::ints({7, 9, 8})},
                                {"categories", testing::int_lists({{1, 2, 3}, {4}, {300}})}});
  folder.write("schema.json", R"({"feature": [
      {"name": "item_id", "type": "INT", "intDomain": {"max": 9, "isCategorical": true},
       "annotation": {"tag": ["item_id"]}},
      {"name": "categories", "type": "INT", "intDomain": {"max": 20, "isCategorical": true},
       "annotation": {"tag": ["list", "categorical"]}}]})");
  InspectReport report = inspect(file.string(), {});
  EXPECT_EQ(report.id_column, "item_id");
  EXPECT_EQ(report.list_column, "categories");
  EXPECT_EQ(report.min_id, 7);
  EXPECT_EQ(report.max_id, 9);
  EXPECT_EQ(report.schema_max_id, 9);
  ASSERT_EQ(report.advice.size(), 1u);
  EXPECT_NE(report.advice[0].find("'item_id' holds one item a row"), std::string::npos);
  EXPECT_NE(to_text(report).find("ids          7 to 9; the schema allows up to 9 (of item_id)"),
            std::string::npos)
      << to_text(report);
  EXPECT_EQ(to_json(report)["ids"]["column"], "item_id");

  std::filesystem::remove(folder / "schema.json");
  report = inspect(file.string(), {});
  EXPECT_EQ(report.id_column, "") << "nobody says which";
  EXPECT_EQ(report.max_length, 3);
  EXPECT_FALSE(report.max_id);
}

}  // namespace
}  // namespace convoy::data
