#include <gtest/gtest.h>

#include <cstdlib>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/data/json_rows.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

class JsonRows : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }

  /// Rows of a file, a line each, behind where they stand; what is broken as its trouble.
  std::string read(const fs::path& file) const {
    std::string out;
    read_json_rows(
        file, {"messages", "tools"},
        [&](const OrderedJson& row, const std::string& where) {
          out += where.substr(where.rfind('/') + 1) + " " + row.dump() + "\n";
        },
        [&](const std::string& trouble) { out += "broken: " + trouble + "\n"; });
    return out;
  }
  bool shell(const std::string& command) const {
    return std::system(("cd " + folder_.string() + " && " + command).c_str()) == 0;
  }

  const fs::path folder_ = unique_folder("convoy-rows-");
};

TEST_F(JsonRows, AreReadFromLinesThatMayBeCompressed) {
  std::string lines = "{\"b\": 1, \"a\": 2}\n\n";
  const std::string expected = "rows.jsonl:1 {\"b\":1,\"a\":2}\n";
  std::string rest = "{\"text\":\"" + std::string(1'000'000, 'x') + "\"}";
  write_file(folder_ / "rows.jsonl", lines + rest);
  EXPECT_EQ(read(folder_ / "rows.jsonl"), expected + "rows.jsonl:3 " + rest + "\n");
  ASSERT_TRUE(shell("gzip -k rows.jsonl"));
  EXPECT_EQ(read(folder_ / "rows.jsonl.gz"),
            "rows.jsonl.gz:1 {\"b\":1,\"a\":2}\nrows.jsonl.gz:3 " + rest + "\n");
  if (shell("command -v zstd > /dev/null && zstd -q rows.jsonl")) {
    EXPECT_EQ(read(folder_ / "rows.jsonl.zst"),
              "rows.jsonl.zst:1 {\"b\":1,\"a\":2}\nrows.jsonl.zst:3 " + rest + "\n");
  }
}

TEST_F(JsonRows, TellWhichLineIsBroken) {
  write_file(folder_ / "rows.jsonl", "{}\n{\"a\": \n{\"a\": \"\xFF\"}\n");
  const auto text = read(folder_ / "rows.jsonl");
  EXPECT_NE(text.find("rows.jsonl:1 {}\nbroken: "), std::string::npos) << text;
  EXPECT_NE(text.find("rows.jsonl:2 is not valid JSON"), std::string::npos) << text;
  EXPECT_NE(text.find("rows.jsonl:3 is not valid JSON"), std::string::npos) << text;
  write_file(folder_ / "rows.txt", "x");
  EXPECT_THROW(read(folder_ / "rows.txt"), UsageError);
  EXPECT_THROW(read(folder_ / "none.jsonl"), FileError);
  write_file(folder_ / "rows.jsonl.gz", "no gzip");
  EXPECT_THROW(read(folder_ / "rows.jsonl.gz"), FileError);
}

/// Of tests/data/conversations.parquet, which pyarrow wrote: its nulls are left out.
TEST_F(JsonRows, AreReadFromParquet) {
  EXPECT_EQ(read(fs::path(CONVOY_SOURCE_DIR) / "tests/data/conversations.parquet"),
            "conversations.parquet {\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},"
            "{\"role\":\"assistant\",\"calls\":[{\"n\":1,\"x\":0.5,\"ok\":true}]}],"
            "\"tools\":\"[]\"}\n"
            "conversations.parquet {\"messages\":[{\"role\":\"user\",\"content\":\"So?\"}]}\n");
}

}  // namespace
}  // namespace convoy::data
