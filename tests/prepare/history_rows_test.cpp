#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "convoy/prepare/items.h"
#include "convoy/prepare/sessions.h"
#include "tests/prepare/sessions_testing.h"

namespace convoy::prepare {
namespace {

using testing::error_of;
using testing::float_rows;
using testing::Folder;
using testing::int_rows;
using testing::options_for;
using IntRows = std::vector<std::vector<int64_t>>;
using FloatRows = std::vector<std::vector<float>>;

/// User a has 8 events, 7 of them to train on; b has one.
std::string long_history() {
  std::string out = "who,what,when\n";
  for (const char* item : {"1", "2", "3", "4", "5", "6", "7", "8"}) {
    out += std::string("a,") + item + "," + item + "\n";
  }
  return out + "b,1,9\n";
}

TEST(HistoryRows, AreBlocksSlidingWindowsOrTheLastEvents) {
  Folder folder;
  auto options = options_for(folder.write("e.csv", long_history()), folder);
  const auto rows = [&] { return int_rows(folder / "out/train.parquet", "item_id-list"); };
  auto report = make_sessions(options);
  EXPECT_EQ(rows(), (IntRows{{1, 2, 3}, {4, 5, 6}}));
  EXPECT_EQ(report.num_short_rows, 1);
  EXPECT_EQ(report.num_unread_events, 1);
  EXPECT_EQ(report.num_train_events, 7);
  EXPECT_EQ(report.num_single_sessions, 1);

  options.rows = HistoryRows::Sliding;
  options.stride = 2;
  report = make_sessions(options);
  EXPECT_EQ(rows(), (IntRows{{1, 2, 3}, {3, 4, 5}, {5, 6, 7}}));
  EXPECT_EQ(report.num_unread_events, 0);
  options.stride = 0;  // half of 3: every event ends a window
  make_sessions(options);
  EXPECT_EQ(rows(), (IntRows{{1, 2, 3}, {2, 3, 4}, {3, 4, 5}, {4, 5, 6}, {5, 6, 7}}));

  options.rows = HistoryRows::Last;
  report = make_sessions(options);
  EXPECT_EQ(rows(), (IntRows{{5, 6, 7}}));
  EXPECT_EQ(report.num_unread_events, 4);
  EXPECT_EQ(int_rows(folder / "out/valid.parquet", "item_id-list"), (IntRows{{6, 7, 8}}));
  options.stride = 2;
  EXPECT_HAS(error_of<UsageError>([&] { make_sessions(options); }), "try --rows sliding");
}

// "007" and "7" are two items, also where the column is a feature.
TEST(EventColumns, KeepTheirTextsInTwoUses) {
  Folder folder;
  const std::string events =
      "who,what,when\na,007,1\na,7,2\na,007,3\nb,7,1\nb,8,2\nb,007,3\nb,7,4\n";
  auto options = options_for(folder.write("e.csv", events), folder);
  options.validation = parse_validation("none");
  const auto ids = [&](const char* features) {
    options.columns.features = parse_features(features);
    make_sessions(options);
    const auto items = ItemNames::load(folder / "out/items.parquet");
    std::string out;
    for (int64_t id = 1; id <= items.size(); ++id) out += items.raw_id(id) + " ";
    return out;
  };
  const auto alone = ids("");
  EXPECT_EQ(alone, "007 7 8 ");
  EXPECT_EQ(ids("what:categorical"), alone);
  EXPECT_EQ(ids("what:continuous"), alone);
  EXPECT_EQ(testing::float_rows(folder / "out/train.parquet", "what-list")[0],
            (std::vector<float>{7, 7, 7}));
  options.columns.features = parse_features("what:continuous");
  folder.write("e.csv", "who,what,when\na,7,1\na,x9,2\n");
  EXPECT_HAS(error_of<FileError>([&] { make_sessions(options); }), "holds 'x9'; expected a number");
}

TEST(EventColumns, MayHaveLinesInQuotes) {
  Folder folder;
  std::string events = "\"who;;\",\"what\",when\n";
  const int64_t count = 40000;  // of some 60 bytes: beyond a block of 1 MiB
  for (int64_t i = 0; i < count; ++i) {
    events +=
        fmt::format("{},\"a long title\nof two lines, or of three\nno {}\",{}\n", i / 10, i % 7, i);
  }
  auto options = options_for(folder.write("e.csv", events), folder);
  options.columns.user = "who;;";
  const auto report = make_sessions(options);
  EXPECT_EQ(report.num_events, count);
  EXPECT_EQ(report.num_items, 7);
}

// As Parquet has times: texts of three types, and dates in milliseconds.
TEST(EventColumns, TimesOfParquetMayBeTextsAndDates) {
  const std::vector<std::string> texts{"2024-01-31T12:00:00", "2024-01-31 12:00:01.5",
                                       "2024-02-01"};
  const auto told = [&](const std::shared_ptr<arrow::Array>& times) {
    Folder folder;
    const auto words = [](const std::vector<std::string>& values) {
      arrow::StringBuilder builder;
      for (const auto& value : values) testing::ok(builder.Append(value));
      return builder.Finish().ValueOrDie();
    };
    const auto file = folder / "e.parquet";
    testing::write_parquet(
        file, {{"who", words({"a", "a", "a"})}, {"what", words({"x", "y", "z"})}, {"when", times}});
    auto options = options_for(file, folder);
    options.validation = parse_validation("none");
    options.keep_time = true;
    make_sessions(options);
    return int_rows(folder / "out/train.parquet", "time-list").at(0);
  };
  const int64_t noon = 1706702400;
  const std::vector<int64_t> expected{noon, noon + 2, noon + 43200};  // rounded
  arrow::StringBuilder plain;
  arrow::LargeStringBuilder large;
  arrow::StringDictionaryBuilder coded;
  for (const auto& text : texts) {
    testing::ok(plain.Append(text));
    testing::ok(large.Append(text));
    testing::ok(coded.Append(text));
  }
  EXPECT_EQ(told(plain.Finish().ValueOrDie()), expected);
  EXPECT_EQ(told(large.Finish().ValueOrDie()), expected);
  EXPECT_EQ(told(coded.Finish().ValueOrDie()), expected);
  arrow::Date64Builder dates;
  for (const int64_t day : {19753, 19754, 19755}) testing::ok(dates.Append(day * 86400000));
  EXPECT_EQ(told(dates.Finish().ValueOrDie()),
            (std::vector<int64_t>{19753 * 86400, 19754 * 86400, 19755 * 86400}));
}

// Quotes around nothing, and an empty text of Parquet, are no id.
TEST(EventColumns, AnEmptyTextIsNoIdAndNoCategory) {
  Folder folder;
  auto options = options_for(
      folder.write("e.csv",
                   "who,what,when,kind\na,x,1,\"\"\na,y,2,k\n\"\",x,3,k\na,\"\",4,k\na,,5,k\n"),
      folder);
  options.columns.features = parse_features("kind");
  options.validation = parse_validation("none");
  const auto report = make_sessions(options);
  EXPECT_EQ(report.num_dropped_events, 3);
  EXPECT_EQ(report.num_users, 1);
  EXPECT_EQ(report.num_items, 2);
  EXPECT_EQ(int_rows(folder / "out/train.parquet", "kind-list"), (IntRows{{0, 1}}));
  const auto file = folder / "e.parquet";
  testing::write_parquet(file, {{"who", testing::words({"a", "", "a", "a"})},
                                {"what", testing::words({"x", "x", "", "y"})},
                                {"when", testing::ints({1, 2, 3, 4})}});
  options.inputs = {file};
  options.columns.features = {};
  EXPECT_EQ(make_sessions(options).num_dropped_events, 2);
}

TEST(EventColumns, MayBeIdsOfRareTypes) {
  Folder folder;
  arrow::HalfFloatBuilder users;
  arrow::StringViewBuilder items;
  arrow::FixedSizeBinaryBuilder kinds(arrow::fixed_size_binary(2));
  arrow::Decimal64Builder times(arrow::decimal64(10, 2));
  for (const int64_t hundredths : {300, 100, 250}) {
    testing::ok(times.Append(arrow::Decimal64(hundredths)));
  }
  for (const char* item : {"x", "y", "z"}) {
    testing::ok(users.Append(0x4700));  // 7
    testing::ok(items.Append(item));
    testing::ok(kinds.Append("ab"));
  }
  const auto file = folder / "e.parquet";
  testing::write_parquet(file, {{"who", users.Finish().ValueOrDie()},
                                {"what", items.Finish().ValueOrDie()},
                                {"when", times.Finish().ValueOrDie()},
                                {"kind", kinds.Finish().ValueOrDie()}});
  auto options = options_for(file, folder);
  options.columns.features = parse_features("kind,who:continuous");
  options.validation = parse_validation("none");
  make_sessions(options);
  EXPECT_EQ(ItemNames::load(folder / "out/users.parquet").raw_id(1), "7");
  EXPECT_EQ(ItemNames::load(folder / "out/items.parquet").raw_id(1), "x");
  EXPECT_EQ(int_rows(folder / "out/train.parquet", "kind-list"), (IntRows{{1, 1, 1}}));
  EXPECT_EQ(float_rows(folder / "out/train.parquet", "who-list"), (FloatRows{{7, 7, 7}}));
}

/// A CSV file of one user whose times are `first`, for more than a mebibyte, then `last`.
std::string long_table(const std::string& first, const std::string& last) {
  std::string out = "who,what,when\n";
  while (out.size() < (5 << 18)) out += "a,x," + first + "\na,y," + first + "\n";
  return out + "b,x," + first + "\nb,y," + last + "\n";
}

// Arrow alone fixes a column's type by its first mebibyte.
TEST(EventColumns, TimesMayChangeTheirFormFarInsideAFile) {
  const auto told = [](const std::string& first, const std::string& last) -> std::string {
    Folder folder;
    auto options = options_for(folder.write("e.csv", long_table(first, last)), folder);
    options.validation = parse_validation("none");
    options.keep_time = true;
    try {
      make_sessions(options);
    } catch (const FileError& error) {
      return error.what();
    }
    const auto times = int_rows(folder / "out/train.parquet", "time-list").back();
    return fmt::format("{} {}", times.at(0), times.at(1));
  };
  EXPECT_EQ(told("1706702400", "1706702405.5"), "1706702400 1706702406");
  EXPECT_EQ(told("2024-01-31 12:00:00", "2024-01-31 12:00:07.25"), "1706702400 1706702407");
  EXPECT_EQ(told("2024-01-31T12:00:00", "2024-01-31T12:00:09Z"), "1706702400 1706702409");
  EXPECT_EQ(told("2024-01-31", "2024-01-31 12:00:00.000001"), "1706659200 1706702400");
  EXPECT_EQ(told("NA", "2024-01-31 12:00:00"), told("", "2024-01-31 12:00:00"));
  EXPECT_EQ(told("1706702400", " 1706702401"), "1706702400 1706702401");
  const auto mixed = told("1706702400", "2024-01-31");
  EXPECT_HAS(mixed, "column 'when', row ");
  EXPECT_HAS(mixed, "holds '2024-01-31'; expected a number or a timestamp");
  EXPECT_HAS(mixed, "of one kind in the whole column; try to mend it, or --time");
}

TEST(HistoryRows, SingleEventsCountAsLeftOutOnlyWhereTheyAre) {
  Folder folder;
  auto options = options_for(folder.write("e.csv", long_history()), folder);
  options.validation = parse_validation("none");
  EXPECT_EQ(make_sessions(options).num_single_sessions, 1);
  options.min_length = 1;
  EXPECT_EQ(make_sessions(options).num_single_sessions, 0);
  const auto rows = int_rows(folder / "out/train.parquet", "item_id-list");
  EXPECT_TRUE(std::ranges::any_of(rows, [](const auto& row) { return row.size() == 1; }));
  options.validation = {};  // it is a target without a history
  EXPECT_EQ(make_sessions(options).num_single_sessions, 1);
}

}  // namespace
}  // namespace convoy::prepare
