#include <gtest/gtest.h>

#include "convoy/prepare/seen.h"
#include "convoy/prepare/sessions.h"
#include "tests/prepare/sessions_testing.h"

namespace convoy::prepare {
namespace {

using testing::Folder;
using testing::int_rows;
using testing::options_for;
using IntRows = std::vector<std::vector<int64_t>>;

std::string events(const char* user, int first, int last, int time = 0) {
  std::string out;
  for (int i = first; i <= last; ++i) {
    out += std::string(user) + "," + std::to_string(i) + "," + std::to_string(time + i) + "\n";
  }
  return out;
}

std::vector<int64_t> numbers(const std::filesystem::path& file) {
  std::vector<int64_t> out;
  for (const auto& row : int_rows(file, kNumContext)) out.push_back(row.at(0));
  return out;
}

TEST(Context, PrecedesTheEventsOfARow) {
  Folder folder;
  auto options = options_for(folder.write("e.csv", "who,what,when\n" + events("a", 1, 8)), folder);
  options.context = 2;
  const auto report = make_sessions(options);
  const auto train = folder / "out/train.parquet", valid = folder / "out/valid.parquet";
  // Blocks of three; the last one, of an event alone, is long enough with its context.
  EXPECT_EQ(int_rows(train, "item_id-list"), (IntRows{{1, 2, 3}, {2, 3, 4, 5, 6}, {5, 6, 7}}));
  EXPECT_EQ(numbers(train), (std::vector<int64_t>{0, 2, 2}));
  EXPECT_EQ(int_rows(valid, "item_id-list"), (IntRows{{4, 5, 6, 7, 8}}));
  EXPECT_EQ(report.num_context_rows, 2);
  EXPECT_EQ(report.num_context_events, 4);
  EXPECT_EQ(report.num_unread_events, 0);
  options.context = 100;
  make_sessions(options);
  EXPECT_EQ(int_rows(train, "item_id-list"),
            (IntRows{{1, 2, 3}, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(int_rows(valid, "item_id-list"), (IntRows{{1, 2, 3, 4, 5, 6, 7, 8}}));
}

TEST(Context, HasNoEventThatIsHeldOut) {
  Folder folder;
  // Two sessions, whose last events are targets: items 3 and 6, which no training row has and which
  // are numbered behind the others, 5 and 6.
  const auto log = "who,what,when\n" + events("a", 1, 3) + events("a", 4, 6, 1000);
  auto options = options_for(folder.write("e.csv", log), folder);
  options.gap_seconds = 100;
  options.context = 5;
  make_sessions(options);
  EXPECT_EQ(int_rows(folder / "out/train.parquet", "item_id-list"),
            (IntRows{{1, 2}, {1, 2, 3, 4}}));
  EXPECT_EQ(numbers(folder / "out/train.parquet"), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(int_rows(folder / "out/valid.parquet", "item_id-list"),
            (IntRows{{1, 2, 5}, {1, 2, 5, 3, 4, 6}}));
}

TEST(Context, GoesOnFromAnEarlierPreparation) {
  Folder folder;
  auto options = options_for(
      folder.write("e.csv", "who,what,when\n" + events("a", 1, 5) + events("b", 1, 2)), folder);
  options.output = folder / "d0";
  make_sessions(options);
  // One new event of a, and a person that nobody knew.
  options.inputs = {folder.write("f.csv", "who,what,when\na,2,100\na,4,101\nc,3,102\nc,1,103\n")};
  options.ids_from = folder / "d0";
  options.output = folder / "d1";
  options.context = 3;
  const auto report = make_sessions(options);
  EXPECT_EQ(int_rows(folder / "d1/train.parquet", "item_id-list"), (IntRows{{3, 4, 5, 2}}));
  EXPECT_EQ(numbers(folder / "d1/train.parquet"), (std::vector<int64_t>{3}));
  EXPECT_EQ(int_rows(folder / "d1/valid.parquet", "item_id-list"),
            (IntRows{{3, 4, 5, 2, 4}, {3, 1}}));
  EXPECT_EQ(int_rows(folder / "d1/train.parquet", kNumSeen), (IntRows{{6}}));
  EXPECT_EQ(report.num_short_rows, 1);  // c has one event to train on
}

}  // namespace
}  // namespace convoy::prepare
