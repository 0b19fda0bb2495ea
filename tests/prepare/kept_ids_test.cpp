#include <gtest/gtest.h>

#include "convoy/prepare/items.h"
#include "convoy/prepare/sessions.h"
#include "tests/prepare/sessions_testing.h"

// A preparation that goes on with the ids of an earlier one.
namespace convoy::prepare {
namespace {

using testing::Folder;
using testing::int_rows;

SessionReport prepare_into(const Folder& folder, const std::string& events,
                           const std::string& output, const std::string& ids_from = "") {
  SessionOptions options;
  options.inputs = {folder.write(output + ".csv", events)};
  options.output = folder / output;
  options.columns.features = {{"kind", FeatureKind::Categorical, {}}};
  options.validation = parse_validation("none");
  if (!ids_from.empty()) options.ids_from = folder / ids_from;
  return make_sessions(options);
}

std::vector<std::string> raw_ids(const Folder& folder, const std::string& file) {
  const auto names = ItemNames::load(folder / file);
  std::vector<std::string> out;
  for (int64_t id = 1; id <= names.size(); ++id) out.push_back(names.raw_id(id));
  return out;
}

TEST(KeptIds, NewOnesComeBehind) {
  const Folder folder;
  prepare_into(folder,
               "user_id,item_id,timestamp,kind\n"
               "u,b,1,x\nu,b,2,x\nu,a,3,y\n",
               "first");
  EXPECT_EQ(raw_ids(folder, "first/items.parquet"), (std::vector<std::string>{"b", "a"}));
  const auto report = prepare_into(folder,
                                   "user_id,item_id,timestamp,kind\n"
                                   "u,c,1,z\nu,d,2,z\nu,d,3,z\nu,a,4,z\nu,a,5,y\n",
                                   "second", "first");
  EXPECT_EQ(report.num_items, 4);
  EXPECT_EQ(raw_ids(folder, "second/items.parquet"),
            (std::vector<std::string>{"b", "a", "d", "c"}));
  EXPECT_EQ(raw_ids(folder, "second/kind.parquet"), (std::vector<std::string>{"x", "y", "z"}));
  const auto items = ItemNames::load(folder / "second/items.parquet");
  EXPECT_EQ(items.count(1), 0) << "it is not in the new events";
  EXPECT_EQ(items.count(2), 2);
  EXPECT_EQ(int_rows(folder / "second/train.parquet", "item_id-list"),
            (std::vector<std::vector<int64_t>>{{4, 3, 3, 2, 2}}));
  EXPECT_EQ(int_rows(folder / "second/train.parquet", "kind-list"),
            (std::vector<std::vector<int64_t>>{{3, 3, 3, 3, 2}}));
}

TEST(KeptIds, WarnOfALogThatRepeatsEarlierEvents) {
  const Folder folder;
  const std::string head = "user_id,item_id,timestamp,kind\n";
  const std::string day0 = "u,a,1,x\nu,b,2,x\nv,b,2,x\nv,c,3,x\n", day1 = "u,c,4,x\nv,a,5,x\n";
  prepare_into(folder, head + day0, "d0");
  const auto told = prepare_into(folder, head + day0 + day1, "all", "d0").warnings;
  ASSERT_EQ(told.size(), 1U);
  EXPECT_HAS(told[0], "4 of 6 events are not later than 1970-01-01 00:00:03, the last time in");
  EXPECT_HAS(told[0], "try later events alone");
  const std::string more = "u,d,4,x\nu,a,5,x\n";
  EXPECT_TRUE(prepare_into(folder, head + more, "d1", "d0").warnings.empty());
  // The last time goes on from folder to folder.
  EXPECT_EQ(prepare_into(folder, head + day0 + "u,d,9,x\n", "d2", "d1").warnings.size(), 1U);
}

TEST(KeptIds, WarnOfEventsBeforeTheEarlierOnes) {
  const Folder folder;
  const std::string head = "user_id,item_id,timestamp,kind\n";
  prepare_into(folder, head + "u,a,11,x\nu,b,12,x\nv,b,20,x\nv,c,21,x\n", "d0");
  const std::string before = "u,c,5,x\nu,d,6,x\nw,a,1,x\nw,b,2,x\n";
  const auto told = prepare_into(folder, head + before + "v,d,21,x\nv,e,22,x\n", "d1", "d0");
  ASSERT_EQ(told.warnings.size(), 1U);
  EXPECT_HAS(told.warnings[0], "2 of 6 events are before 1970-01-01 00:00:21, the last time in");
  EXPECT_HAS(told.warnings[0], "put behind the histories of their users there");
}

TEST(KeptIds, RefuseTimesInAnotherUnit) {
  const Folder folder;
  const std::string head = "user_id,item_id,timestamp,kind\n";
  const std::string seconds = "u,a,1700000000,x\nu,b,1700000001,x\n";
  const std::string milliseconds = "u,c,1700000002000,x\nu,d,1700000003000,x\n";
  prepare_into(folder, head + seconds, "s");
  prepare_into(folder, head + milliseconds, "ms");
  EXPECT_MESSAGE(prepare_into(folder, head + milliseconds, "d", "s"),
                 "the times of these events begin 1700000002000 seconds after 1970");
  EXPECT_MESSAGE(prepare_into(folder, head + seconds, "d", "ms"),
                 "the times of these events end 1700000001 seconds after 1970");
}

TEST(KeptIds, AreThoseOfAPreparation) {
  const Folder folder;
  EXPECT_MESSAGE(
      prepare_into(folder, "user_id,item_id,timestamp,kind\nu,a,1,x\nu,b,2,y\n", "out", "nowhere"),
      "has no items.parquet, whose ids are to be kept");
}

}  // namespace
}  // namespace convoy::prepare
