#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

#include "convoy/prepare/sessions.h"
#include "tests/prepare/sessions_testing.h"

namespace convoy::prepare {
namespace {

using testing::error_of;
using testing::Folder;
using testing::int_rows;
using IntRows = std::vector<std::vector<int64_t>>;

TEST(SessionWindows, CutSessionsAndHaveFoldersOfTheirOwn) {
  Folder folder;
  const int64_t day = 86400;
  std::string events = "who,what,when\n";
  for (const auto& [user, item, time] : std::vector<std::tuple<const char*, const char*, int64_t>>{
           {"a", "x", 10 * day + 5},
           {"a", "y", 10 * day + day - 1},
           {"a", "x", 11 * day},  // midnight cuts
           {"a", "z", 11 * day + 1},
           {"b", "x", 10 * day + 9},  // shorter than two
           {"b", "y", 17 * day},
           {"b", "z", 17 * day + 2},
           {"b", "x", 17 * day + 3},
           {"b", "z", 17 * day + 4}}) {
    events += fmt::format("{},{},{}\n", user, item, time);
  }
  SessionOptions options;
  options.inputs = {folder.write("e.csv", events)};
  options.output = folder / "out";
  options.columns.user = "who";
  options.columns.item = "what";
  options.columns.time = {"when"};
  options.max_length = 3;
  options.window_days = 1;
  auto report = make_sessions(options);
  EXPECT_EQ(report.num_windows, 3);
  EXPECT_EQ(report.num_train_rows, 3);
  EXPECT_EQ(report.num_items, 3);  // x 4, z 3, y 2: the last ones are trained on, too
  const auto rows = [&](const std::string& file) {
    return int_rows(folder / ("out/" + file), "item_id-list");
  };
  EXPECT_EQ(rows("0001/train.parquet"), (IntRows{{1, 2}}));
  EXPECT_EQ(rows("0002/train.parquet"), (IntRows{{1, 3}}));
  EXPECT_EQ(rows("0008/train.parquet"), (IntRows{{2, 3, 1}}));
  EXPECT_EQ(rows("0008/valid.parquet"), (IntRows{{3, 1, 3}}));
  EXPECT_FALSE(std::filesystem::exists(folder / "out/train.parquet"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out/0003"));

  options.window_days = 7;  // takes away what is no window any more
  report = make_sessions(options);
  EXPECT_EQ(report.num_windows, 2);
  EXPECT_EQ(rows("0001/train.parquet"), (IntRows{{1, 2, 1}}));
  EXPECT_EQ(rows("0002/train.parquet"), (IntRows{{2, 3, 1}}));
  EXPECT_FALSE(std::filesystem::exists(folder / "out/0008"));
  options.window_days = 0;
  make_sessions(options);
  EXPECT_FALSE(std::filesystem::exists(folder / "out/0001"));

  options.window_days = 1;
  options.columns.time = {"none"};
  EXPECT_NE(error_of<UsageError>([&] { make_sessions(options); }).find("--windows needs times"),
            std::string::npos);
}

TEST(SessionWindows, NeedATimeOfEveryEventAsPausesDo) {
  Folder folder;
  SessionOptions options;
  options.inputs = {folder.write("e.csv", "who,what,when\na,x,1\na,y,\na,z,3\n,x,\nb,x,5\n")};
  options.output = folder / "out";
  options.columns.user = "who";
  options.columns.item = "what";
  options.columns.time = {"when"};
  options.gap_seconds = 15;
  EXPECT_HAS(error_of<FileError>([&] { make_sessions(options); }),
             "event 2 has no time, which --session gap compares; try without it");
  options.gap_seconds = 0;
  options.window_days = 1;
  EXPECT_HAS(error_of<FileError>([&] { make_sessions(options); }), "event 2 has no time");
}

// Windows 1 and 2 have ids that stay whatever later windows hold.
TEST(SessionWindows, IdsDoNotKnowWhatComesLater) {
  Folder folder;
  const int64_t day = 86400;
  std::string events = "who,what,when\n";
  const auto add = [&](const char* item, int64_t time) {
    events += fmt::format("a,{},{}\n", item, time);
  };
  for (const char* item : {"y", "y", "x", "z"}) add(item, 10 * day);
  for (const char* item : {"z", "w", "v", "w"}) add(item, 11 * day);
  auto options = testing::options_for(folder.write("e.csv", events), folder);
  options.window_days = 1;
  options.max_length = 4;
  make_sessions(options);
  const IntRows first{{1, 1, 2, 3}}, second{{3, 4, 5, 4}};
  const auto check = [&] {
    EXPECT_EQ(int_rows(folder / "out/0001/train.parquet", "item_id-list"), first);
    EXPECT_EQ(int_rows(folder / "out/0002/train.parquet", "item_id-list"), second);
  };
  check();
  for (int64_t i = 0; i < 9; ++i) add(i % 2 == 0 ? "v" : "x", 12 * day + i);
  folder.write("e.csv", events);
  EXPECT_TRUE(make_sessions(options).warnings.empty());
  check();
}

TEST(SessionWindows, AStrayTimeIsTold) {
  Folder folder;
  auto options = testing::options_for(
      folder.write("e.csv",
                   "who,what,when\na,x,1700000000\na,y,1700000001\nb,x,0\nb,y,1700000002\n"),
      folder);
  options.window_days = 1;
  const auto report = make_sessions(options);
  ASSERT_EQ(report.warnings.size(), 1U);
  EXPECT_HAS(report.warnings[0], "window 1 (event 3 at 0 seconds after 1970) and window 19676");
}

}  // namespace
}  // namespace convoy::prepare
