#include "convoy/tasks/session/list_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/prepare/popularity.h"
#include "convoy/tasks/session/catalog_facts.h"
#include "tests/data/parquet_testing.h"

namespace convoy::tasks {
namespace {

using Lists = std::vector<std::vector<int64_t>>;

/// list_metrics.json: make_list_metric_fixtures.py wrote what RecTools says of these lists.
class ListMetrics : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto path = std::string(CONVOY_SOURCE_DIR) + "/tests/parity/list_metrics.json";
    fixture_ = parse_json(read_file(path), path);
    folder_ = unique_folder("convoy-test");
    write_training();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Training rows as convoy data sessions has them, and a column that differs between the events
  /// of an item.
  void write_training() {
    std::vector<int64_t> users;
    Lists items, mood;
    std::map<std::string, Lists> categories;
    for (const auto& row : fixture_.at("train")) {
      users.push_back(row.at(0).get<int64_t>());
      items.push_back(row.at(1).get<std::vector<int64_t>>());
      for (const auto& [name, values] : fixture_.at("categories").items()) {
        auto& list = categories[name].emplace_back();
        for (const int64_t item : items.back()) {
          list.push_back(values.at(static_cast<size_t>(item)).get<int64_t>());
        }
      }
      auto& moods = mood.emplace_back();
      for (const int64_t item : items.back()) moods.push_back((item + users.back()) % 3);
    }
    categories["mood-list"] = mood;
    std::vector<data::testing::Named> columns{{"user_id", data::testing::ints(users)},
                                              {"item_id-list", data::testing::int_lists(items)}};
    for (const auto& [name, lists] : categories) {
      columns.emplace_back(name, data::testing::int_lists(lists));
      formats::Feature feature;
      feature.name = name;
      feature.is_list = true;
      feature.tags = {"categorical", "list"};
      schema_.features.push_back(feature);
    }
    data::testing::write_parquet(train(), columns, 7);
  }

  std::filesystem::path train() const { return folder_ / "train.parquet"; }

  EvaluatedRows lists() const {
    EvaluatedRows out{.list_size = 10};
    for (const auto& list : fixture_.at("lists")) {
      auto items = list.get<std::vector<int64_t>>();
      items.resize(10, 0);
      out.rows.push_back(out.size());
      out.items.insert(out.items.end(), items.begin(), items.end());
    }
    return out;
  }

  CatalogFacts facts() const {
    const auto num_ids = fixture_.at("num_ids").get<int64_t>();
    CatalogFacts out{.num_items = std::ssize(fixture_.at("known")),
                     .counts = prepare::count_items(data::ParquetFiles(train().string()),
                                                    "item_id-list", num_ids - 1),
                     .users = {},
                     .categories = {}};
    read_catalog_facts(train().string(), "item_id-list", "user_id", schema_, num_ids, out);
    return out;
  }

  Json fixture_;
  formats::Schema schema_;
  std::filesystem::path folder_;
};

TEST_F(ListMetrics, AreThoseOfRecTools) {
  const auto known = facts();
  EXPECT_EQ(known.num_users, 60);
  EXPECT_EQ(known.categories.size(), 2U) << "the mood of an event is none of its item's";
  const auto values = list_metrics(lists(), fixture_.at("targets").get<std::vector<int64_t>>(),
                                   fixture_.at("ks").get<std::vector<int64_t>>(), known);
  for (const auto& [name, value] : fixture_.at("expected").items()) {
    ASSERT_TRUE(values.contains(name)) << name;
    EXPECT_NEAR(values.at(name), value.get<double>(), 1e-9) << name;
  }
  EXPECT_EQ(values.size(), fixture_.at("expected").size());
  EXPECT_GT(values.at("serendipity_at_10"), 0.01);
  EXPECT_GT(values.at("diversity_at_3"), 0.5);
}

TEST_F(ListMetrics, PassOverRowsWithoutAList) {
  auto some = lists();
  auto targets = fixture_.at("targets").get<std::vector<int64_t>>();
  const auto known = facts();
  const auto before = list_metrics(some, targets, {3}, known);
  some.rows.push_back(some.size());
  some.items.resize(some.items.size() + 10, 0);
  targets.push_back(1);
  EXPECT_EQ(list_metrics(some, targets, {3}, known), before);
  const auto told = list_metrics(some, targets, {3}, {.num_items = known.num_items});
  EXPECT_EQ(told.size(), 1U) << "nothing is known of the items";
  EXPECT_EQ(told.at("coverage_at_3"), before.at("coverage_at_3"));
}

}  // namespace
}  // namespace convoy::tasks
