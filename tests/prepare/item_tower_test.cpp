#include <gtest/gtest.h>

#include "convoy/base/files.h"
#include "convoy/prepare/item_features.h"
#include "convoy/prepare/items.h"
#include "convoy/prepare/sessions.h"
#include "tests/prepare/sessions_testing.h"

namespace convoy::prepare {
namespace {

using testing::error_of;
using testing::Folder;
using testing::options_for;
using Ids = std::vector<int64_t>;

const std::string kTowerEvents = "who,what,when\na,x,1\na,y,2\na,z,3\na,x,4\nb,y,5\nb,z,6\nb,x,7\n";
const std::string kTowerItems =
    "what,genre,brand,price,picture\n"
    "x,Action|Drama,acme,10,\"[1, 2]\"\n"
    "y,Drama,,20,\n"
    "new,Drama|Western,acme,,3 4\n"
    "z,,other,30,5;6\n";

SessionOptions options_with(const Folder& folder, const std::string& table,
                            const std::string& columns) {
  auto options = options_for(folder.write("e.csv", kTowerEvents), folder);
  options.items = {folder.write("i.csv", table), "what"};
  options.item_tower = parse_item_columns(columns);
  return options;
}

ItemFeatures load(const std::filesystem::path& folder) {
  return ItemFeatures::load(folder / kItemFeaturesFile, folder / kItemFeaturesInfo);
}

Ids ids_in(const ItemFeature& feature, int64_t item) {
  const auto ids = feature.ids_of(item);
  return {ids.begin(), ids.end()};
}

std::vector<float> numbers_in(const ItemFeature& feature, int64_t item) {
  const auto numbers = feature.numbers_of(item);
  return {numbers.begin(), numbers.end()};
}

TEST(ItemTowerTable, IsKeptByItem) {
  Folder folder;
  const auto options =
      options_with(folder, kTowerItems, "genre:split,brand,price:/10,picture:vector");
  const auto report = make_sessions(options);
  EXPECT_EQ(report.num_items, 4);
  EXPECT_EQ(report.num_eventless_items, 1);
  EXPECT_EQ(report.num_tower_items, 4);
  // Items by count in training: y, z, x; behind them what has no event.
  const auto names = ItemNames::load(folder / "out/items.parquet");
  EXPECT_EQ(names.raw_id(4), "new");
  EXPECT_EQ(names.count(4), 0);
  const auto all = load(folder / "out");
  ASSERT_EQ(all.num_items(), 4);
  const auto& genre = *all.find("genre");
  EXPECT_EQ(genre.values, (std::vector<std::string>{"Drama", "Action", "Western"}));
  EXPECT_EQ(ids_in(genre, 1), (Ids{1}));
  EXPECT_EQ(ids_in(genre, 2), Ids());
  EXPECT_EQ(ids_in(genre, 3), (Ids{1, 2}));
  EXPECT_EQ(ids_in(genre, 4), (Ids{1, 3}));
  EXPECT_TRUE(all.find("brand")->is_missing(1));
  EXPECT_EQ(numbers_in(*all.find("price"), 1), (std::vector<float>{2}));
  EXPECT_TRUE(all.find("price")->is_missing(4));
  EXPECT_EQ(all.find("picture")->width, 2);
  EXPECT_EQ(numbers_in(*all.find("picture"), 2), (std::vector<float>{5, 6}));
  EXPECT_TRUE(all.find("picture")->is_missing(1));
}

TEST(ItemTowerTable, KeepsIdsOfAnEarlierPreparation) {
  Folder folder;
  make_sessions(options_with(folder, kTowerItems, "genre:split,price"));
  auto later = options_with(folder,
                            "what,genre,price\n"
                            "x,Western|Comedy,11\n"
                            "newer,Comedy|Action,\n",
                            "genre:split,price");
  later.inputs = {folder.write("l.csv", "who,what,when\na,x,11\na,newer,12\na,y,13\na,x,14\n")};
  later.output = folder / "later";
  later.ids_from = folder / "out";
  EXPECT_EQ(make_sessions(later).num_new_items, 1);
  const auto all = load(folder / "later");
  const auto& genre = *all.find("genre");
  EXPECT_EQ(genre.values, (std::vector<std::string>{"Drama", "Action", "Western", "Comedy"}));
  EXPECT_EQ(ids_in(genre, 3), (Ids{3, 4})) << "x as it is now";
  EXPECT_EQ(ids_in(genre, 1), (Ids{1})) << "y as it was";
  EXPECT_EQ(ids_in(genre, 5), (Ids{2, 4}));
  EXPECT_EQ(numbers_in(*all.find("price"), 2), (std::vector<float>{30}));
  later.items = {};
  later.item_tower.clear();
  later.output = folder / "without";
  make_sessions(later);
  EXPECT_EQ(ids_in(*load(folder / "without").find("genre"), 3), (Ids{1, 2}));
  EXPECT_TRUE(load(folder / "without").find("genre")->is_missing(5));
}

TEST(ItemTowerTable, ReadsListsAndTypesOfRecBole) {
  Folder folder;
  const auto options = options_with(folder,
                                    "what:token\tclass:token_seq\tyear:token\tx:float_seq\n"
                                    "x\tAction Drama\t1995\t1 2\ny\tDrama\t1996\t3 4\n",
                                    "class,year,x");
  make_sessions(options);
  const auto all = load(folder / "out");
  EXPECT_EQ(all.find("class")->values, (std::vector<std::string>{"Drama", "Action"}));
  EXPECT_EQ(all.find("year")->kind, ItemKind::Categorical);
  EXPECT_EQ(all.find("x")->width, 2);
}

TEST(ItemTowerTable, ReadsListsOfParquet) {
  Folder folder;
  ItemFeatures table;
  table.features.push_back(
      {.name = "tags", .values = {"a", "b", "c"}, .ids = {2, 1, 3}, .ends = {1, 3}});
  table.features.push_back(
      {.name = "picture", .kind = ItemKind::Vector, .width = 2, .numbers = {1, 2}, .ends = {0, 2}});
  write_item_features(table, folder / "i.parquet", folder / "i.parquet");
  auto options = options_for(folder.write("e.csv", "who,what,when\na,1,1\na,2,2\na,1,3\n"), folder);
  options.items = {folder / "i.parquet", "id"};
  options.item_tower = parse_item_columns("tags,picture");
  make_sessions(options);
  const auto all = load(folder / "out");
  EXPECT_EQ(all.find("tags")->values, (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(ids_in(*all.find("tags"), 2), (Ids{1, 3}));
  EXPECT_TRUE(all.find("picture")->is_missing(1));
  EXPECT_EQ(numbers_in(*all.find("picture"), 2), (std::vector<float>{1, 2}));
}

TEST(ItemTowerTable, IsTakenAwayWithoutOne) {
  Folder folder;
  auto options = options_with(folder, kTowerItems, "genre:split");
  make_sessions(options);
  EXPECT_TRUE(std::filesystem::exists(folder / "out" / kItemFeaturesFile));
  options.items = {};
  options.item_tower.clear();
  make_sessions(options);
  EXPECT_FALSE(std::filesystem::exists(folder / "out" / kItemFeaturesFile));
  EXPECT_FALSE(std::filesystem::exists(folder / "out" / kItemFeaturesInfo));
}

TEST(ItemTowerTable, GoesOnWithNewItemsAlone) {
  Folder folder;
  make_sessions(options_with(folder, kTowerItems, "brand,price,picture:vector"));
  // As text these categories look like numbers, and tonight no item has a price or a picture.
  auto later =
      options_with(folder, "what,brand,price,picture\nn1,7,,\nn2,8,,\n", "brand,price,picture");
  later.output = folder / "later";
  later.ids_from = folder / "out";
  make_sessions(later);
  const auto all = load(folder / "later");
  EXPECT_EQ(all.find("brand")->values, (std::vector<std::string>{"acme", "other", "7", "8"}));
  EXPECT_EQ(numbers_in(*all.find("price"), 1), (std::vector<float>{20})) << "y as it was";
  EXPECT_TRUE(all.find("price")->is_missing(5));
  EXPECT_EQ(numbers_in(*all.find("picture"), 2), (std::vector<float>{5, 6}));
  later.item_tower = parse_item_columns("brand,price");
  EXPECT_HAS(error_of<UsageError>([&] { make_sessions(later); }), "does not name 'picture'");
}

TEST(ItemTowerTable, WarnsOfCategoriesThatAreMostlyNumbers) {
  Folder folder;
  const std::string table = "what,price\nx,10\ny,free\nz,30\n";
  const auto guessed = make_sessions(options_with(folder, table, "price"));
  ASSERT_EQ(guessed.warnings.size(), 1U);
  EXPECT_HAS(guessed.warnings[0], "item feature 'price' became categorical");
  EXPECT_HAS(guessed.warnings[0], "holds 'free'; 2 of its 3 values are numbers");
  EXPECT_TRUE(make_sessions(options_with(folder, table, "price:categorical")).warnings.empty());
  const std::string typed = "what:token,price:token\nx,10\ny,free\nz,30\n";
  EXPECT_TRUE(make_sessions(options_with(folder, typed, "price")).warnings.empty());
}

TEST(ItemTowerTable, IsReadAsItWasWrittenOrNotAtAll) {
  Folder folder;
  make_sessions(options_with(folder, kTowerItems, "price"));
  const auto table = folder / "out" / kItemFeaturesFile, info = folder / "out" / kItemFeaturesInfo;
  const auto right = read_file(info);
  const auto refused = [&] { return error_of<FileError>([&] { load(folder / "out"); }); };
  auto other = right;
  other.replace(other.find("\"items\": 4"), 10, "\"items\": 5");
  write_file(info, other);
  EXPECT_HAS(refused(), "has 4 items, and item_features.json tells of 5");
  other = right;
  other.replace(other.find("continuous"), 10, "categorical\", \"values\": [\"a\"], \"was\": \"");
  write_file(info, other);
  EXPECT_HAS(refused(), "has no lists of whole numbers as 'price'");
}

TEST(ItemTowerTable, RefusesWhatDoesNotFit) {
  Folder folder;
  const auto refused = [&](const std::string& table, const std::string& columns) {
    return error_of<Error>([&] { make_sessions(options_with(folder, table, columns)); });
  };
  EXPECT_HAS(refused("what,price\nx,1\ny,cheap\n", "price:continuous"), "row 3 of");
  EXPECT_HAS(refused("what,v\nx,1 2\ny,3\n", "v:vector"), "row 3 of");
  EXPECT_HAS(refused("what,v\nx,1 2\ny,3\n", "v:vector"), "has 1 number; expected 2");
  EXPECT_HAS(refused("what,v\nx,1 a\n", "v:vector"), "holds 'a' in a vector");
  EXPECT_HAS(refused("what,g\nx,a\nx,b\n", "g"), "two rows of item 'x', 2 and 3");
  EXPECT_HAS(refused("what,g\nx,a\n,b\n", "g"), "row 3 of");
  EXPECT_HAS(refused("what,g\nx,a\n", "genre"), "column 'genre' is missing");
  EXPECT_HAS(refused("what,g\nx,\n", "g:categorical"), "has no value in any row");
  EXPECT_HAS(refused("what,g\n00x,a\n00y,b\n", "g"),
             "has none of the item ids of the events: '00x', but the events 'y'");
  EXPECT_HAS(error_of<UsageError>([] { parse_item_columns("g:split:continuous"); }),
             "--item-tower has 'g:split:continuous'");
  EXPECT_HAS(error_of<UsageError>([] { parse_item_columns("g,g"); }), "names 'g' twice");
  auto options = options_with(folder, kTowerItems, "genre");
  options.items = {};
  EXPECT_HAS(error_of<UsageError>([&] { make_sessions(options); }),
             "has no effect without a table");
  make_sessions(options_with(folder, kTowerItems, "genre:split"));
  auto later = options_with(folder, kTowerItems, "genre:split,brand");
  later.output = folder / "later";
  later.ids_from = folder / "out";
  EXPECT_HAS(error_of<Error>([&] { make_sessions(later); }), "has no item feature 'brand'");
}

}  // namespace
}  // namespace convoy::prepare
