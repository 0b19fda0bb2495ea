#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "convoy/prepare/sessions.h"
#include "tests/prepare/sessions_testing.h"

// What is said of interactions that cannot become sessions.
namespace convoy::prepare {
namespace {

using testing::error_of;
using testing::Folder;
using testing::int_rows;
using testing::kEvents;
using testing::options_for;
using IntRows = std::vector<std::vector<int64_t>>;

TEST(SessionsErrors, SayWhatIsWrongWithTheInput) {
  Folder folder;
  SessionOptions options = options_for(folder / "none.csv", folder);
  auto message = [&] { return error_of([&] { make_sessions(options); }); };
  EXPECT_HAS(message(), "none.csv does not exist");
  options.inputs = {folder.write("empty.csv", "")};
  EXPECT_HAS(message(), "empty.csv is empty");
  options.inputs = {folder.write("header.csv", "who,what,when\n")};
  EXPECT_HAS(message(), "holds no rows");
  options.inputs = {folder.write("bare.csv", "who,what,when")};
  EXPECT_HAS(message(), "bare.csv: holds no rows; expected a header and rows below it");
  using namespace std::string_literals;
  options.inputs = {folder.write("wide.csv", "w\0h\0o\0,\0\n\0a\0"s)};
  EXPECT_HAS(message(), "wide.csv is no UTF-8 but looks like UTF-16; expected text in UTF-8");
  EXPECT_HAS(message(), "try `iconv -f UTF-16LE -t UTF-8 ");
  options.inputs = {folder.write("marked.csv", "\xFE\xFF\0w\0h\0o"s)};
  EXPECT_HAS(message(), "marked.csv is no UTF-8 but looks like UTF-16");
  options.inputs = {folder.write("ragged.csv", "who,what,when\na,b,1\na,b\n")};
  EXPECT_HAS(message(), "ragged.csv: CSV parse error: Row #3: Expected 3 columns, got 2");
  options.inputs = {folder.write("text.csv", "who,what,when\na,b,noon\n")};
  EXPECT_HAS(message(), "column 'when', row 2 of");
  EXPECT_HAS(message(), "text.csv holds 'noon'; expected a number or a timestamp");
  options.inputs = {folder.write("late.csv", "who,what,when\na,b,\na,b,5\n\na,b,noon\n")};
  EXPECT_HAS(message(), "row 4 of");
  options.inputs = {folder.write("mixed.csv", "who,what,when\na,b,2024-01-31\na,b,5\na,b,6\n")};
  EXPECT_HAS(message(), "row 3 of");
  EXPECT_HAS(message(), "mixed.csv holds '5'");
  options.inputs = {folder.write("broken.parquet", "PAR1 and then nothing of use")};
  EXPECT_HAS(message(), "broken.parquet is cut short");
  options.inputs = {folder.write("e.zip", "PK")};
  EXPECT_HAS(message(), "python3 -m zipfile");
  options.inputs = {folder.write("one.csv", "who,what,when\na,b,1\n")};
  EXPECT_HAS(message(), "no session has 2 events to train on");
}

TEST(SessionsErrors, MissingColumnNamesTheNearest) {
  Folder folder;
  SessionOptions options = options_for(folder.write("e.csv", kEvents), folder);
  options.columns.item = "whatt";
  const std::string message = error_of([&] { make_sessions(options); });
  EXPECT_HAS(message, "column 'whatt' is missing in");
  EXPECT_HAS(message, "did you mean 'what'?");
  EXPECT_HAS(message, "it has who, what, when, stars, kind");
  EXPECT_HAS(message, "try --item");
  options.columns.item = "what";
  options.columns.user = "";
  EXPECT_HAS(error_of([&] { make_sessions(options); }), "try --user COLUMN");
}

TEST(SessionsErrors, WrongTypes) {
  Folder folder;
  SessionOptions options = options_for(folder.write("e.csv", kEvents), folder);
  options.columns.features = parse_features("kind:continuous");
  EXPECT_HAS(error_of([&] { make_sessions(options); }), "invalid value 'new'");
  const auto file = folder / "lists.parquet";
  testing::write_parquet(file, {{"who", testing::ints({1})},
                                {"what", testing::int_lists({{1, 2}})},
                                {"when", testing::ints({1})}});
  options.inputs = {file};
  options.columns.features = {};
  EXPECT_HAS(error_of([&] { make_sessions(options); }), "column 'what' in");
  options.inputs = {folder.write("inf.csv", "who,what,when,p\na,b,1,-5\na,b,2,1\n")};
  options.columns.features = parse_features("p:log1p");
  EXPECT_HAS(error_of([&] { make_sessions(options); }), "feature 'p' has the value -5");
}

TEST(SessionsErrors, AdviceIsNoDeadEnd) {
  Folder folder;
  const auto file = folder / "e.parquet";
  const auto message = [&](std::vector<testing::Named> columns, const std::string& features = "") {
    testing::write_parquet(file, columns);
    auto options = options_for(file, folder);
    options.columns.features = parse_features(features);
    return error_of([&] { make_sessions(options); });
  };
  const auto ones = testing::ints({1, 1});
  arrow::TimestampBuilder builder(arrow::timestamp(arrow::TimeUnit::SECOND),
                                  arrow::default_memory_pool());
  testing::ok(builder.AppendValues({5, 6}));
  const auto instants = builder.Finish().ValueOrDie();
  const auto feature =
      message({{"who", ones}, {"what", ones}, {"when", ones}, {"f", instants}}, "f");
  EXPECT_HAS(feature, "column 'f' in ");
  EXPECT_HAS(feature, "; expected numbers; try to cast it to a number");
  EXPECT_HAS(message({{"who", ones}, {"what", instants}, {"when", ones}}),
             "expected text or whole numbers; try to cast it to text, or --item");
  const auto doubles = [](double second) {
    return testing::numbers<arrow::DoubleBuilder>({1, second});
  };
  EXPECT_HAS(message({{"who", ones}, {"what", doubles(2.5)}, {"when", ones}}),
             "column 'what', row 1 of " + file.string() + " holds 2.5");
  EXPECT_HAS(message({{"who", doubles(INFINITY)}, {"what", ones}, {"when", ones}}), "holds inf");
  EXPECT_HAS(message({{"who", ones}, {"what", doubles(1e17)}, {"when", ones}}), "holds 1e+17");
  for (const uint64_t tick : {uint64_t{1} << 63, (uint64_t{1} << 63) - 1}) {
    EXPECT_HAS(message({{"who", ones},
                        {"what", ones},
                        {"when", testing::numbers<arrow::UInt64Builder>({1, tick})}}),
               fmt::format("column 'when', row 1 of {} holds {}, no instant", file.string(), tick));
  }
  EXPECT_HAS(message({{"who", ones}, {"what", ones}, {"when", doubles(-INFINITY)}}),
             "row 1 of " + file.string() + " holds -inf, no instant");
}

TEST(SessionsErrors, AUsedColumnHasItsNameAlone) {
  Folder folder;
  const auto message = [&](const std::string& text) {
    const auto options = options_for(folder.write("e.csv", text), folder);
    return error_of([&] { make_sessions(options); });
  };
  EXPECT_HAS(message("who,what,when,what\na,b,1,c\na,c,2,d\n"),
             "e.csv has several columns 'what'; expected each name once");
  EXPECT_HAS(message("who,what:token,when,what:float\na,b,1,c\na,c,2,d\n"), "several columns");
  EXPECT_EQ(message("who,what,when,more,more\na,b,1,c,d\na,c,2,d,e\na,b,3,c,c\n"), "");
  const auto ones = testing::ints({1, 1});
  testing::write_parquet(folder / "e.parquet",
                         {{"who", ones}, {"what", ones}, {"when", ones}, {"who", ones}});
  const auto options = options_for(folder / "e.parquet", folder);
  EXPECT_HAS(error_of([&] { make_sessions(options); }), "e.parquet has several columns 'who'");
}

TEST(SessionsErrors, FolderOfARunIsNoPlaceForData) {
  Folder folder;
  auto options = options_for(folder.write("e.csv", kEvents), folder);
  options.output = folder / "run";
  const auto items = folder.write("run/items.parquet", "the run's");
  folder.write("run/trainer_state.json", "{}");
  EXPECT_HAS(error_of<UsageError>([&] { make_sessions(options); }), "is the folder of a run");
  EXPECT_EQ(read_file(items), "the run's");
  // What cannot be replaced is told before anything is.
  options.output = folder / "data";
  make_sessions(options);
  const auto train = read_file(folder / "data/train.parquet");
  std::filesystem::remove(folder / "data/users.parquet");
  std::filesystem::create_directory(folder / "data/users.parquet");
  options.max_length = 3;
  EXPECT_HAS(error_of<UsageError>([&] { make_sessions(options); }), "users.parquet is a folder");
  EXPECT_EQ(read_file(folder / "data/train.parquet"), train);
  EXPECT_TRUE(std::filesystem::exists(folder / "data/schema.json"));
}

TEST(SessionsErrors, ImpossibleOptions) {
  Folder folder;
  SessionOptions options = options_for(folder.write("e.csv", kEvents), folder);
  auto message = [&] { return error_of<UsageError>([&] { make_sessions(options); }); };
  options.max_length = 1;
  EXPECT_HAS(message(), "--max-length is 1; expected at least 2");
  options.max_length = 5;
  options.min_length = 6;
  EXPECT_HAS(message(), "--min-length 6 is above --max-length 5");
  EXPECT_HAS(error_of<UsageError>([] { parse_features("a:bogus"); }), "--features has 'a:bogus'");
  EXPECT_HAS(error_of<UsageError>([] { parse_features("a:/0"); }), "--features has 'a:/0'");
  EXPECT_HAS(error_of<UsageError>([] { parse_features("a,a"); }), "names 'a' twice");
}

TEST(SessionsErrors, AFailureLeavesTheOldFilesAlone) {
  Folder folder;
  SessionOptions options = options_for(folder.write("e.csv", kEvents), folder);
  make_sessions(options);
  const std::string before = read_file(folder / "out/train.parquet");
  options.names = folder.write("names.csv", "id,title\nq,Nobody\n");
  EXPECT_NE(error_of([&] { make_sessions(options); }), "");
  EXPECT_EQ(read_file(folder / "out/train.parquet"), before);
  options.names.clear();
  options.output = folder.write("file", "in the way") / "deeper";
  EXPECT_HAS(error_of([&] { make_sessions(options); }), "cannot create folder");
}

}  // namespace
}  // namespace convoy::prepare
