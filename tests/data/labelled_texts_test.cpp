#include "convoy/data/labelled_texts.h"

#include <gtest/gtest.h>

#include "convoy/base/files.h"
#include "tests/data/parquet_testing.h"

namespace convoy::data {
namespace {
namespace fs = std::filesystem;
using namespace testing;

class LabelledTextsOf : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = unique_folder("convoy-labelled-texts"); }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

// Larger than Arrow's blocks, which end within a text.
TEST_F(LabelledTextsOf, CsvMayHaveLinesInQuotes) {
  std::string text = "good w1, ";
  for (int i = 0; i < 300; ++i) text += "w2 w3\n";
  std::string table = "text,label\n";
  int64_t rows = 0;
  for (; table.size() < 20'000'000; ++rows) {
    table += "\"" + text + std::to_string(rows) + "\"," + std::to_string(rows % 3) + "\n";
  }
  write_file(folder_ / "long.csv", table);
  const auto read = read_labelled_texts(folder_ / "long.csv", {});
  ASSERT_EQ(read.size(), rows);
  for (int64_t row = 0; row < rows; ++row) {
    const auto i = static_cast<size_t>(row);
    ASSERT_EQ(read.texts[i], text + std::to_string(row));
    ASSERT_EQ(read.labels[i], std::to_string(row % 3));
  }
}

TEST_F(LabelledTextsOf, ATextOfCsvMayBeLong) {
  const std::string text(3'500'000, 'w');
  write_file(folder_ / "long.csv", "text,label\n" + text + ",a\nshort,b\n\"" + text + "\",c\n");
  const auto read = read_labelled_texts(folder_ / "long.csv", {});
  EXPECT_EQ(read.labels, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(read.texts.at(0) == text && read.texts.at(1) == "short" && read.texts.at(2) == text);
  write_file(folder_ / "long.csv", "text,label\n" + std::string(40'000'000, 'w') + ",a\n");
  EXPECT_MESSAGE(read_labelled_texts(folder_ / "long.csv", {}),
                 "long.csv: a row is too long for a table of text");
}

TEST_F(LabelledTextsOf, WordsForNothingAreTexts) {
  write_file(folder_ / "na.csv", "text,label\nNA,null\nNaN,nan\n\"\",N/A\n");
  const auto read = read_labelled_texts(folder_ / "na.csv", {});
  EXPECT_EQ(read.texts, (std::vector<std::string>{"NA", "NaN", ""}));
  EXPECT_EQ(read.labels, (std::vector<std::string>{"null", "nan", "N/A"}));
  write_file(folder_ / "na.csv", "text,label\nNA,\n");
  EXPECT_MESSAGE(read_labelled_texts(folder_ / "na.csv", {}),
                 "column 'label' has no value in row 2");
}

TEST_F(LabelledTextsOf, CategoriesAreWhatTheyStandFor) {
  const auto file = folder_ / "categories.parquet";
  write_parquet(file, {{"text", categories({2, 0, 1, 0}, {"a b", "c", "d"})},
                       {"text_pair", words({"w", "x", "y", "z"})},
                       {"label", categories({1, 0, 0, 1}, {"bad", "good"})}});
  const auto read = read_labelled_texts(file, {"text", "text_pair", "label"});
  EXPECT_EQ(read.texts, (std::vector<std::string>{"d", "a b", "c", "a b"}));
  EXPECT_EQ(read.seconds, (std::vector<std::string>{"w", "x", "y", "z"}));
  EXPECT_EQ(read.labels, (std::vector<std::string>{"good", "bad", "bad", "good"}));
  write_parquet(file, {{"text", words({"a", "b"})}, {"label", categories({0, {}}, {"bad"})}});
  EXPECT_MESSAGE(read_labelled_texts(file, {}), "column 'label' has no value in row 1");
}

/// Memory where nothing lies is a file that cannot be read.
TEST_F(LabelledTextsOf, ReadErrorIsNotTakenForTheEnd) {
  fs::create_symlink("/proc/self/mem", folder_ / "broken.jsonl");
  EXPECT_MESSAGE(read_labelled_texts(folder_ / "broken.jsonl", {}),
                 "cannot read " + (folder_ / "broken.jsonl").string() + " to its end: ");
}

TEST_F(LabelledTextsOf, ANameWithoutAnEndingLeavesItToTheContent) {
  write_file(folder_ / "lines", "\n {\"text\": \"a\", \"label\": 1}\n");
  write_file(folder_ / "table", "text\tlabel\na\t1\n");
  for (const char* name : {"lines", "table"}) {
    const auto read = read_labelled_texts(folder_ / name, {});
    EXPECT_EQ(read.texts, std::vector<std::string>{"a"}) << name;
    EXPECT_EQ(read.labels, std::vector<std::string>{"1"}) << name;
  }
}

}  // namespace
}  // namespace convoy::data
