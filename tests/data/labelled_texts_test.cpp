#include "convoy/data/labelled_texts.h"

#include <gtest/gtest.h>

#include "convoy/base/files.h"

namespace convoy::data {
namespace {
namespace fs = std::filesystem;

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
  for (; table.size() < 3'000'000; ++rows) {
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

}  // namespace
}  // namespace convoy::data
