#include "convoy/prepare/items.h"

#include <gtest/gtest.h>

#include <cmath>

#include "convoy/prepare/popularity.h"
#include "tests/data/parquet_testing.h"
#include "tests/prepare/sessions_testing.h"

namespace convoy::prepare {
namespace {

using testing::error_of;
using testing::Folder;

TEST(Items, RoundTrip) {
  Folder folder;
  const auto file = folder / "items.parquet";
  write_items(file, file, {{1, "42", 7, "T\xC3\xB6st"}, {2, "x", 0, ""}});
  const ItemNames names = ItemNames::load(file);
  ASSERT_EQ(names.size(), 2);
  EXPECT_TRUE(names.has_names());
  EXPECT_EQ(names.raw_id(1), "42");
  EXPECT_EQ(names.count(1), 7);
  EXPECT_EQ(names.label(1), "T\xC3\xB6st");
  EXPECT_EQ(names.label(2), "x");
  write_items(file, file, {{1, "a", 1, ""}});
  EXPECT_FALSE(ItemNames::load(file).has_names());
}

TEST(Items, AnAbsentFileNamesIdsByThemselves) {
  Folder folder;
  const ItemNames names = ItemNames::load(folder / "items.parquet");
  EXPECT_EQ(names.size(), 0);
  EXPECT_EQ(names.raw_id(17), "17");
  EXPECT_EQ(names.label(17), "17");
  EXPECT_EQ(names.count(17), 0);
}

TEST(Items, RefusesBrokenFiles) {
  Folder folder;
  const auto file = folder / "items.parquet";
  testing::write_parquet(file, {{"id", testing::ints({1})}});
  EXPECT_NE(error_of([&] { ItemNames::load(file); }).find("column 'raw_id' is missing"),
            std::string::npos);
  testing::write_parquet(file, {{"id", testing::ints({1, 3})},
                                {"raw_id", testing::ints({5, 6})},
                                {"count", testing::ints({1, 1})}});
  const std::string message = error_of([&] { ItemNames::load(file); });
  EXPECT_NE(message.find("row 1 of"), std::string::npos) << message;
  EXPECT_NE(message.find("has id 3; expected 2"), std::string::npos) << message;
}

TEST(Popularity, RanksByCountThenId) {
  Folder folder;
  const auto file = folder / "valid.parquet";
  // Counts 5, 9, 9, 0: the ranking is 2, 3, 1, 4.
  testing::write_parquet(
      file, {{"item_id-list", testing::int_lists({{1, 2}, {1, 3}, {2, 1}, {1, 4}, {2}})}});
  const data::ParquetFiles valid(file.string());
  const PopularityReport report =
      popularity_baseline({0, 5, 9, 9, 0}, valid, "item_id-list", {1, 3});
  EXPECT_EQ(report.num_rows, 4);  // the row of one item has no target
  EXPECT_DOUBLE_EQ(report.recall[0], 0.25);
  EXPECT_DOUBLE_EQ(report.recall[1], 0.75);
  EXPECT_DOUBLE_EQ(report.mrr[1], (1 + 1 / 2.0 + 1 / 3.0) / 4);
  EXPECT_DOUBLE_EQ(report.ndcg[1], (1 + 1 / std::log2(3.0) + 1 / 2.0) / 4);
  EXPECT_EQ(count_items(valid, "item_id-list", 4), (std::vector<int64_t>{0, 4, 3, 1, 1}));
  EXPECT_NE(error_of([&] { popularity_baseline({0, 5, 9, 9}, valid, "item_id-list"); }).find("4"),
            std::string::npos);
}

TEST(Popularity, LooksPastPadding) {
  Folder folder;
  const auto measure = [&](const char* name, const std::vector<std::vector<int64_t>>& rows) {
    const auto file = folder / name;
    testing::write_parquet(file, {{"item_id-list", testing::int_lists(rows)}});
    return popularity_baseline({0, 5, 9, 9, 0}, data::ParquetFiles(file.string()), "item_id-list",
                               {1, 3}, {.exclude_seen = true});
  };
  const auto padded = measure("padded.parquet", {{1, 2, 0}, {2, 3, 1}, {2, 0, 0}, {0, 0, 0}});
  EXPECT_EQ(padded.num_rows, 2) << "one item and padding are no target";
  EXPECT_DOUBLE_EQ(padded.recall[0], 1);
}

// As the model's ranking does: such a person had at least what the row holds.
TEST(Popularity, LeavesOutARowsItemsWhereItsOwnerHasNoList) {
  Folder folder;
  const auto lists = folder / "seen.parquet", file = folder / "valid.parquet";
  testing::write_parquet(
      lists, {{"user_id", testing::ints({1})}, {"item_id-list", testing::int_lists({{2, 3, 1}})}});
  testing::write_parquet(file, {{"item_id-list", testing::int_lists({{2, 3, 1}, {2, 3, 1}})},
                                {"user_id", testing::ints({1, 9})},
                                {"num_seen", testing::ints({3, 3})}});
  const auto told =
      popularity_baseline({0, 5, 9, 9, 0}, data::ParquetFiles(file.string()), "item_id-list", {1},
                          {.exclude_seen = true,
                           .seen = std::make_shared<SeenLists>(lists),
                           .owner_column = "user_id"});
  EXPECT_DOUBLE_EQ(told.recall[0], 1);
}

TEST(Popularity, RanksAmongWhatARowMayBeRecommended) {
  Folder folder;
  const auto file = folder / "valid.parquet";
  // Counts 5, 9, 9, 0: the ranking is 2, 3, 1, 4. The target 7 is new.
  testing::write_parquet(
      file, {{"item_id-list", testing::int_lists({{2, 2, 3, 1}, {1, 3, 1}, {2, 7}, {3, 1, 2}})}});
  const data::ParquetFiles valid(file.string());
  const auto measure = [&](const RankedRows& rows) {
    return popularity_baseline({0, 5, 9, 9, 0}, valid, "item_id-list", {1, 3}, rows);
  };
  const auto all = measure({.new_ids = true});
  EXPECT_EQ(all.num_rows, 4) << "a new target is missed, and counts";
  EXPECT_DOUBLE_EQ(all.mrr[1], (1 / 3.0 + 1 / 3.0 + 0 + 1) / 4);
  // Without 2 and 3 the item 1 is first; an item that was seen is no candidate.
  const auto unseen = measure({.exclude_seen = true, .new_ids = true});
  EXPECT_DOUBLE_EQ(unseen.recall[0], (1 + 0 + 0 + 1) / 4.0);
  const auto cut = measure({.max_length = 2, .new_ids = true});  // targets 2, 3, 7, 1
  EXPECT_DOUBLE_EQ(cut.recall[0], 1 / 4.0);
  EXPECT_DOUBLE_EQ(cut.mrr[1], (1 + 1 / 2.0 + 0 + 1 / 3.0) / 4);
  // Of an item that is never recommended nobody is behind, and who waits for it waits in vain.
  const auto known = measure({.new_ids = true, .candidates = {true, true, false, true, false}});
  EXPECT_DOUBLE_EQ(known.mrr[1], (1 / 2.0 + 1 / 2.0 + 0 + 0) / 4);
}

}  // namespace
}  // namespace convoy::prepare
