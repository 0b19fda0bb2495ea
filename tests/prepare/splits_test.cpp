#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/prepare/items.h"
#include "convoy/prepare/seen.h"
#include "convoy/prepare/sessions.h"
#include "convoy/prepare/sessions_split.h"
#include "convoy/prepare/times.h"
#include "tests/prepare/sessions_testing.h"

namespace convoy::prepare {
namespace {

using testing::error_of;
using testing::Folder;
using testing::int_rows;
using testing::options_for;
using Texts = std::vector<std::string>;

// Written out by hand: a has five events, b three, c two, d one.
constexpr const char* kLog =
    "who,what,when\n"
    "a,p,2024-04-01\na,q,2024-04-20\na,r,2024-05-02\na,s,2024-05-30\na,t,2024-06-03\n"
    "b,q,2024-04-02\nb,p,2024-05-03\nb,r,2024-06-04\n"
    "c,p,2024-04-03\nc,t,2024-06-05\n"
    "d,q,2024-05-04\n";

/// Rows of a split as "user: items", with all that the user had before the target.
class Split {
 public:
  Split(const Folder& folder, const std::string& name) {
    const auto out = folder / "out";
    const auto items = ItemNames::load(out / "items.parquet"),
               users = ItemNames::load(out / "users.parquet");
    const SeenLists seen(out / "seen.parquet");
    const auto file = out / (name + ".parquet");
    const auto owners = int_rows(file, "user_id"), counts = int_rows(file, kNumSeen);
    const auto rows = int_rows(file, "item_id-list");
    for (size_t i = 0; i < rows.size(); ++i) {
      auto text = users.raw_id(owners[i][0]) + ":";
      for (const int64_t id : rows[i]) text += " " + items.raw_id(id);
      rows_.push_back(text);
      text.clear();
      for (const int32_t id : seen.of(owners[i][0], counts[i][0] - 1)) {
        text += (text.empty() ? "" : " ") + items.raw_id(id);
      }
      before_.push_back(text);
    }
  }
  const Texts& rows() const { return rows_; }
  const Texts& before() const { return before_; }  ///< what exclude_seen leaves out

 private:
  Texts rows_, before_;
};

class Splits : public ::testing::Test {
 protected:
  SessionReport make(const std::string& validation, int64_t max_length = 10) {
    auto options = options_for(folder_.write("e.csv", kLog), folder_);
    options.validation = parse_validation(validation);
    options.max_length = max_length;
    return make_sessions(options);
  }
  Texts rows(const std::string& name) const { return Split(folder_, name).rows(); }
  Texts before(const std::string& name) const { return Split(folder_, name).before(); }
  /// How often training has an item, as items.parquet says.
  int64_t count(const std::string& item) const {
    const auto items = ItemNames::load(folder_ / "out/items.parquet");
    for (int64_t id = 1; id <= items.size(); ++id) {
      if (items.raw_id(id) == item) return items.count(id);
    }
    return -1;
  }
  Folder folder_;
};

TEST_F(Splits, LeaveLastTwo) {
  const auto report = make("leave-last-two");
  EXPECT_EQ(rows("train"), (Texts{"a: p q r"}));
  EXPECT_EQ(rows("valid"), (Texts{"a: p q r s", "b: q p"}));
  EXPECT_EQ(rows("test"), (Texts{"a: p q r s t", "b: q p r", "c: p t"}));
  EXPECT_EQ(before("valid"), (Texts{"p q r", "q"}));
  EXPECT_EQ(before("test"), (Texts{"p q r s", "q p", "p"}));
  EXPECT_EQ(report.num_short_rows, 2);  // of b and c
  EXPECT_EQ(report.num_single_sessions, 1);
  EXPECT_EQ(report.num_train_events, 5);
  EXPECT_EQ(report.valid.num_rows, 2);
  EXPECT_EQ(report.valid.num_unseen, 1);  // s
  EXPECT_EQ(report.test.num_rows, 3);
  EXPECT_EQ(report.test.num_unseen, 2);  // t twice
  EXPECT_EQ(report.test.num_first, 1);   // d's only event
  EXPECT_EQ(count("p"), 2);
  EXPECT_EQ(count("t"), 0);
  const auto decisions = parse_json(read_file(folder_ / "out/sessions.json"), "sessions.json");
  EXPECT_EQ(decisions.at("validation"), "leave-last-two");
}

TEST_F(Splits, RowsHoldTheEndOfAHistoryAndTheFilterAllOfIt) {
  const auto report = make("leave-last-two", 3);
  EXPECT_EQ(rows("valid"), (Texts{"a: q r s", "b: q p"}));
  EXPECT_EQ(rows("test"), (Texts{"a: r s t", "b: q p r", "c: p t"}));
  EXPECT_EQ(before("test"), (Texts{"p q r s", "q p", "p"}));
  EXPECT_EQ(report.valid.num_cut, 1);
  EXPECT_EQ(report.test.num_cut, 1);
}

TEST_F(Splits, RatiosGiveARowForEachTarget) {
  make("ratio:0.5,0.25,0.25");
  // Of 5: 1.25 and 1.25, of 3: one each, of 2: the test first, of 1: none.
  EXPECT_EQ(rows("train"), (Texts{"a: p q r"}));
  EXPECT_EQ(rows("valid"), (Texts{"a: p q r s", "b: q p"}));
  EXPECT_EQ(rows("test"), (Texts{"a: p q r s t", "b: q p r", "c: p t"}));
  make("ratio:0.4,0.2,0.4");
  EXPECT_EQ(rows("train"), (Texts{"a: p q"}));
  EXPECT_EQ(rows("valid"), (Texts{"a: p q r", "b: q p"}));
  EXPECT_EQ(rows("test"), (Texts{"a: p q r s", "a: p q r s t", "b: q p r", "c: p t"}));
  EXPECT_EQ(before("test"), (Texts{"p q r", "p q r s", "q p", "p"}));
  using Counts = std::array<int64_t, 2>;
  const std::array<double, 3> tenths{0.8, 0.1, 0.1};
  EXPECT_EQ(counts_by_ratio(1, tenths), (Counts{0, 0}));
  EXPECT_EQ(counts_by_ratio(2, tenths), (Counts{0, 1}));
  EXPECT_EQ(counts_by_ratio(3, tenths), (Counts{1, 1}));
  EXPECT_EQ(counts_by_ratio(19, tenths), (Counts{1, 1}));
  EXPECT_EQ(counts_by_ratio(30, tenths), (Counts{3, 3}));
  // Dataset._calcu_split_ids of RecBole 1.2.1 with 0.7, 0.15 and 0.15.
  const std::map<int64_t, Counts> of_recbole{
      {1, {0, 0}},  {2, {0, 1}},  {3, {1, 1}},  {5, {1, 1}},  {7, {1, 1}},     {13, {1, 1}},
      {14, {2, 2}}, {20, {3, 3}}, {21, {3, 3}}, {40, {6, 6}}, {100, {15, 15}}, {943, {141, 141}}};
  const auto shares = parse_validation("ratio:0.7,0.15,0.15").shares;
  for (const auto& [events, counts] : of_recbole) {
    EXPECT_EQ(counts_by_ratio(events, shares), counts) << events;
  }
}

TEST_F(Splits, DatesHoldOutEverythingFromADayOn) {
  const auto report = make("date:2024-05-01,2024-06-01");
  EXPECT_EQ(rows("train"), (Texts{"a: p q"}));
  EXPECT_EQ(rows("valid"), (Texts{"a: p q r", "a: p q r s", "b: q p"}));
  EXPECT_EQ(rows("test"), (Texts{"a: p q r s t", "b: q p r", "c: p t"}));
  EXPECT_EQ(before("valid"), (Texts{"p q", "p q r", "q"}));
  EXPECT_EQ(report.valid.num_first, 1);  // d is new
  EXPECT_EQ(report.valid.num_sessions, 2);
  // The second at which a split begins is its own.
  make("date:2024-05-02,2024-06-04 00:00:00");
  EXPECT_EQ(rows("valid"), (Texts{"a: p q r", "a: p q r s", "a: p q r s t", "b: q p"}));
  EXPECT_EQ(rows("test"), (Texts{"b: q p r", "c: p t"}));
}

// No split may train on what it asks for, whatever the log and the rows.
TEST_F(Splits, KeepTargetsOutOfTraining) {
  std::mt19937 random(7);
  std::string log = "who,what,when\n";
  for (int event = 0; event < 400; ++event) {  // each event has an item of its own
    log += fmt::format("u{},i{},{}\n", random() % 25, event, 1700000000 + random() % 5000);
  }
  const auto file = folder_.write("e.csv", log);
  for (const char* text : {"leave-last-two", "ratio:0.6,0.2,0.2", "date:1700002000,1700003000"}) {
    for (const auto rows : {HistoryRows::Blocks, HistoryRows::Sliding, HistoryRows::Last}) {
      auto options = options_for(file, folder_);
      options.validation = parse_validation(text);
      options.rows = rows;
      const auto report = make_sessions(options);
      std::map<int64_t, int> times_in_training;
      for (const auto& row : int_rows(folder_ / "out/train.parquet", "item_id-list")) {
        for (const int64_t id : row) ++times_in_training[id];
      }
      std::map<int64_t, int> times_a_target;
      for (const char* name : {"valid", "test"}) {
        const auto split = folder_ / "out" / (std::string(name) + ".parquet");
        for (const auto& row : int_rows(split, "item_id-list")) {
          EXPECT_EQ(times_in_training.count(row.back()), 0U) << text;
          EXPECT_EQ(++times_a_target[row.back()], 1) << "one split, one row: " << text;
        }
      }
      EXPECT_EQ(std::ssize(times_a_target), report.valid.num_rows + report.test.num_rows);
      EXPECT_EQ(report.valid.num_rows + report.test.num_rows + report.valid.num_first +
                    report.test.num_first + report.num_train_events,
                400)
          << text;
    }
  }
}

TEST_F(Splits, RefuseWhatIsNoSplitOfTheseEvents) {
  const auto refused = [&](const char* text) { return error_of<Error>([&] { make(text); }); };
  EXPECT_HAS(refused("leave-last-three"), "expected leave-last-out, leave-last-two, ratio:");
  EXPECT_HAS(refused("ratio:0.8,0.1"), "three shares above 0 that sum to 1");
  EXPECT_HAS(refused("ratio:0.8,0.1,0.2"), "three shares above 0 that sum to 1");
  EXPECT_HAS(refused("ratio:0.9,0,0.1"), "three shares above 0 that sum to 1");
  EXPECT_HAS(refused("date:2024-05-01"), "names no two dates");
  EXPECT_HAS(refused("date:2024-06-01,2024-05-01"), "one after the other");
  EXPECT_HAS(refused("date:2024-02-31,2024-05-01"), "names no two dates");
  EXPECT_HAS(refused("date:2030-01-01,2030-02-01"),
             "the events are from 2024-04-01 00:00:00 to 2024-06-05 00:00:00 (UTC)");
  EXPECT_HAS(refused("date:2024-04-01,2024-05-01"), "leaves no events before");
  auto options = options_for(folder_ / "e.csv", folder_);
  options.validation = parse_validation("leave-last-two");
  options.window_days = 1;
  EXPECT_HAS(error_of<UsageError>([&] { make_sessions(options); }), "does not go with --windows");
  make("leave-last-two");
  EXPECT_HAS(refused("leave-last-out"), "test.parquet is there from an earlier run");
}

TEST(Dates, AreDaysInstantsOrSeconds) {
  EXPECT_EQ(parse_utc("1970-01-02"), 86400);
  EXPECT_EQ(parse_utc("2024-02-29 01:02:03"), 1709168523);
  EXPECT_EQ(parse_utc("2024-02-29T01:02:03Z"), 1709168523);
  EXPECT_EQ(parse_utc("2024-02-29 01:02"), 1709168520);
  EXPECT_EQ(parse_utc("12.5"), 12.5);
  for (const char* text : {"", "May", "2024-13-01", "2023-02-29", "2024-02-29 25:00", "2024-02-29x",
                           "2024-02-29 01:02:03 CET", "nan"}) {
    EXPECT_EQ(parse_utc(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace convoy::prepare
