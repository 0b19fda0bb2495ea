#include "tests/cli/command_testing.h"

namespace convoy {
namespace {

class DataCommand : public CommandTest {
 protected:
  int run(const std::string& arguments) { return CommandTest::run("data " + arguments); }
};

TEST_F(DataCommand, SessionsThenInspectThenRepartition) {
  std::string text = "user_id\titem_id\trating\ttimestamp\n";
  for (int user = 0; user < 9; ++user) {
    for (int t = 0; t < 6; ++t) {
      text += std::to_string(user) + "\t" + std::to_string(100 + t) + "\t3\t" + std::to_string(t) +
              "\n";
    }
  }
  write_file(folder_ / "events.tsv", text);
  ASSERT_EQ(run("sessions events.tsv --output out --features rating,time_delta:log1p "
                "--row-group-size 5"),
            0)
      << output_;
  expect("events     54\n");
  expect("items      6\n");
  expect("train      9 rows in 2 row groups, mean length 5.00");
  expect("valid      9 rows, 9 of them with a target that training never shows");
  expect("wrote      out/train.parquet");

  ASSERT_EQ(run("inspect out --ranks 3"), 0) << output_;
  expect("out/train.parquet\n  rows         9\n");
  expect("out/valid.parquet\n");
  expect("try `convoy data repartition out/train.parquet --for-ranks 3`");

  ASSERT_EQ(run("repartition out/train.parquet --for-ranks 3"), 0) << output_;
  expect("row groups 2 before, 3 now, of 3 to 3 rows");
  ASSERT_EQ(run("inspect out/train.parquet --ranks 3 --json"), 0) << output_;
  const Json report = parse_json(output_, "output");
  EXPECT_EQ(report[0]["ranks"][2]["by_row_groups"]["rows"], 3);
  EXPECT_TRUE(report[0]["advice"].empty());
}

TEST_F(DataCommand, Synthetic) {
  ASSERT_EQ(run("synthetic --output syn --items 30 --rows 40"), 0) << output_;
  expect("train      40 rows in 1 row group, mean");
  EXPECT_TRUE(fs::exists(folder_ / "syn/items.parquet"));
}

TEST_F(DataCommand, Tokenize) {
  write_file(folder_ / "gpt/vocab.json", R"({"a": 0, "b": 1, "ab": 2, "\u010a": 3})");
  write_file(folder_ / "gpt/merges.txt", "#version: 0.2\na b\n");
  write_file(folder_ / "book.txt", "abba\nab\xFF\n");
  ASSERT_EQ(run("tokenize book.txt --tokenizer gpt --output book.parquet --threads 1"), 0)
      << output_;
  expect("texts      2 (");
  expect("tokens     6, ");
  expect(", vocabulary 4\n");
  expect("wrote      book.parquet (");
  expect("1 places were not UTF-8 and became U+FFFD");
  EXPECT_NE(run("tokenize book.txt --tokenizer gpt --output strict.parquet --strict"), 0);
  expect("book.txt has bytes that are not UTF-8, at text 1 or before");
  EXPECT_NE(run("tokenize book.txt --tokenizer none --output book.parquet"), 0);
  expect("there is no tokenizer none");
}

TEST_F(DataCommand, NumbersAreDecimalAndFit) {
  const std::string synthetic = "synthetic --output syn --items 12 --rows ";
  ASSERT_EQ(run(synthetic + "010"), 0) << output_;
  expect("10 rows in");
  ASSERT_EQ(run(synthetic + "09 --seed 18446744073709551615"), 0) << output_;
  for (const std::string wrong :
       {"--rows 0x10", "--rows ''", "--items ''", "--items 9223372036854775808", "--rows 1e3",
        "--seed -1", "--seed 18446744073709551616", "--mean-length 0x5", "--mean-length nan"}) {
    EXPECT_EQ(run("synthetic --output syn " + wrong), 2) << wrong << output_;
    expect(split(wrong, ' ')[0] + ": got '");
    expect(wrong.starts_with("--seed") ? "expected a whole number from 0 to 2^64-1"
                                       : "; expected a ");
  }
  EXPECT_EQ(run("inspect syn --ranks 02"), 0) << output_;
  EXPECT_EQ(CommandTest::run("bench axes none.toml --rows 0x2"), 2);
  expect("got 0x2; expected a whole number of at least 1");
  for (const char* memory : {"nan", "-1", "0"}) {
    EXPECT_EQ(CommandTest::run(std::string("schedule --stages 2 --memory ") + memory), 2)
        << output_;
    expect(std::string("got ") + memory + "; expected a number above 0");
  }
}

TEST_F(DataCommand, EveryHelpHasAnExample) {
  for (const char* command : {"sessions", "synthetic", "inspect", "repartition", "tokenize"}) {
    ASSERT_EQ(run(std::string(command) + " --help"), 0) << output_;
    expect(std::string("convoy data ") + command + " ");
  }
}

TEST_F(DataCommand, MistakesAreOneLineAndAnExitCode) {
  write_file(folder_ / "events.csv", "user,item,time\nu,a,1\n");
  EXPECT_NE(run("sessions events.csv --output out --item itme"), 0);
  expect("column 'itme' is missing in events.csv; did you mean 'item'? it has user, item, time");
  EXPECT_NE(run("sessions events.csv --output out --session gap"), 0);
  expect("try --gap 1800");
  EXPECT_NE(run("sessions events.csv --output out --gap 5"), 0);
  expect("--gap has no effect on --session user");
  EXPECT_NE(run("inspect nothing.parquet"), 0);
  expect("nothing.parquet");
  EXPECT_NE(run("repartition events.csv --for-ranks 2 --partitions 2"), 0);
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

}  // namespace
}  // namespace convoy
