#include "convoy/data/tools/tokenize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/reader.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/data/token_file.h"
#include "tests/prepare/sessions_testing.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

// Letters are their own ids from 0 on, "\n" is 26, " " 27, U+FFFD 28, "ab" 29; <s> stands in front.
std::string tokenizer_json() {
  std::string vocabulary;
  for (char c = 'a'; c <= 'z'; ++c) vocabulary += fmt::format(R"("{}": {}, )", c, c - 'a');
  return R"({"added_tokens": [{"id": 30, "content": "<s>", "special": true}],
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [30], "tokens": ["<s>"]}}},
    "model": {"type": "BPE", "merges": ["a b"], "vocab": {)" +
         vocabulary + R"("\n": 26, " ": 27, "\ufffd": 28, "ab": 29}}})";
}

class Tokenize : public ::testing::Test {
 protected:
  Tokenize() {
    write_file(folder_ / "tokenizer.json", tokenizer_json());
    options_.tokenizer = folder_;
    options_.output = folder_ / "out.parquet";
    options_.add_special_tokens = false;
  }
  ~Tokenize() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& content) {
    write_file(folder_ / name, content);
    return folder_ / name;
  }
  std::shared_ptr<arrow::Table> table(const fs::path& file) {
    auto in = arrow::io::ReadableFile::Open(file.string()).ValueOrDie();
    auto reader = parquet::arrow::OpenFile(in, arrow::default_memory_pool()).ValueOrDie();
    return reader->ReadTable().ValueOrDie()->CombineChunks().ValueOrDie();
  }
  /// The rows of the output, written as letters again.
  std::vector<std::string> rows() {
    const auto column = table(options_.output)->GetColumnByName(kIdsColumn)->chunk(0);
    const auto& lists = static_cast<const arrow::ListArray&>(*column);
    const auto& ids = static_cast<const arrow::Int32Array&>(*lists.values());
    std::vector<std::string> rows;
    for (int64_t row = 0; row < lists.length(); ++row) {
      rows.emplace_back();
      for (int64_t i = lists.value_offset(row); i < lists.value_offset(row + 1); ++i) {
        rows.back() += "abcdefghijklmnopqrstuvwxyz\n ?AS"[ids.Value(i)];
      }
    }
    return rows;
  }
  std::vector<std::string> rows_of(std::vector<fs::path> inputs) {
    options_.inputs = std::move(inputs);
    report_ = tokenize(options_);
    return rows();
  }
  std::string problem_with(const fs::path& input) {
    return message_of([&] { rows_of({input}); });
  }

  fs::path folder_ = unique_folder("convoy-tokenize-");
  TokenizeOptions options_;
  TokenizeReport report_;
};

TEST_F(Tokenize, ReadsLinesAsDatasetsDoes) {
  const std::vector<std::string> expected{"one\n", "\n", "tAo\n", "c\n", "d\n", "\n", "end"};
  EXPECT_EQ(rows_of({write("a.txt", "one\n\ntabo\nc\rd\r\r\nend")}), expected);
  EXPECT_EQ(report_.num_texts, 7);
  EXPECT_EQ(report_.num_tokens, 17);
  EXPECT_EQ(report_.vocab_size, 31);
}

TEST_F(Tokenize, ReadsJsonLinesAndParquetAndSeveralFiles) {
  const fs::path lines =
      write("a.jsonl", "{\"text\": \"one\\ntwo\", \"n\": 1}\n\n{\"text\": \"\"}\n");
  arrow::StringBuilder texts;
  testing::ok(texts.Append("three"));
  testing::ok(texts.Append("f r"));
  testing::write_parquet(folder_ / "b.parquet",
                         {{"n", testing::ints({1, 2})}, {"text", texts.Finish().ValueOrDie()}});
  EXPECT_EQ(rows_of({lines, folder_ / "b.parquet"}),
            (std::vector<std::string>{"one\ntwo", "", "three", "f r"}));
}

TEST_F(Tokenize, ReadsPipesOfTextLinesAndParquet) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto rows_through = [&](const std::string& content) {
    std::thread writer([&] { std::ofstream(pipe, std::ios::binary) << content; });
    auto rows = rows_of({pipe});
    writer.join();
    return rows;
  };
  EXPECT_EQ(rows_through("one\ntabo"), (std::vector<std::string>{"one\n", "tAo"}));
  EXPECT_EQ(rows_through("{\"text\": \"one\"}\n"), std::vector<std::string>{"one"});
  arrow::StringBuilder texts;
  testing::ok(texts.Append("three"));
  testing::write_parquet(folder_ / "b.parquet", {{"text", texts.Finish().ValueOrDie()}});
  EXPECT_EQ(rows_through(read_file(folder_ / "b.parquet")), std::vector<std::string>{"three"});
}

TEST_F(Tokenize, TellsTheTokenizerInTheMetadata) {
  rows_of({write("a.txt", "ab")});
  const auto metadata = table(options_.output)->schema()->metadata();
  EXPECT_EQ(metadata->Get(kTokenizerKey).ValueOrDie(), report_.fingerprint);
  EXPECT_EQ(metadata->Get(kVocabSizeKey).ValueOrDie(), "31");
}

TEST_F(Tokenize, AddsSpecialTokensToEveryText) {
  options_.add_special_tokens = true;
  EXPECT_EQ(rows_of({write("a.txt", "a\nb")}), (std::vector<std::string>{"Sa\n", "Sb"}));
}

TEST_F(Tokenize, WritesTheSameFileOnAnyNumberOfThreads) {
  std::string text;
  for (int i = 0; i < 400000; ++i) text += i % 17 == 0 ? "\n" : i % 3 == 0 ? "ab x" : "cd ";
  const fs::path file = write("a.txt", text + text + text);
  std::vector<std::string> written;
  std::vector<int64_t> progress;
  for (const int threads : {1, 3}) {
    options_.threads = threads;
    options_.inputs = {file};
    report_ = tokenize(options_, [&](int64_t done, int64_t total) {
      EXPECT_LE(done, total);
      progress.push_back(done);
    });
    written.push_back(read_file(options_.output));
  }
  EXPECT_EQ(written[0], written[1]);
  EXPECT_GE(report_.num_row_groups, 2);
  EXPECT_EQ(progress.back(), static_cast<int64_t>(fs::file_size(file)));
}

TEST_F(Tokenize, CountsOrRefusesWhatIsNotUtf8) {
  const fs::path file = write("a.txt", "good\nb\xFF\nb\xE6\x97");
  EXPECT_EQ(rows_of({file}), (std::vector<std::string>{"good\n", "b?\n", "b?"}));
  EXPECT_EQ(report_.num_malformed, 2);
  rows_of({write("a.jsonl", "{\"text\": \"a\xFF\"}")});
  EXPECT_EQ(report_.num_malformed, 1);
  fs::remove(options_.output);
  options_.strict = true;
  EXPECT_THAT(problem_with(file),
              AllOf(HasSubstr("a.txt"), HasSubstr("not UTF-8"), HasSubstr("text 1")));
  EXPECT_THAT(problem_with(folder_ / "a.jsonl"), HasSubstr("not UTF-8"));
  EXPECT_FALSE(fs::exists(options_.output)) << "a file that is half written";
}

TEST_F(Tokenize, NamesFileAndPlaceOfMistakes) {
  EXPECT_THAT(problem_with(folder_ / "none.txt"), HasSubstr("there is no file"));
  EXPECT_THAT(problem_with(write("a.csv", "x")),
              HasSubstr("expected .txt, .jsonl, .parquet, .arrow"));
  EXPECT_THAT(problem_with(write("a.txt", "")), HasSubstr("holds no text"));
  EXPECT_THAT(problem_with(write("a.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n")),
              AllOf(HasSubstr("a.jsonl:2 has no text 'text'"), HasSubstr("--column")));
  EXPECT_THAT(problem_with(write("b.jsonl", "{\"text\": \"a\"\n")), HasSubstr("b.jsonl:1"));
  testing::write_parquet(folder_ / "n.parquet", {{"text", testing::ints({1})}});
  EXPECT_THAT(problem_with(folder_ / "n.parquet"), HasSubstr("holds int64; expected text"));
  options_.column = "texts";
  EXPECT_THAT(problem_with(folder_ / "n.parquet"), HasSubstr("texts"));
  options_.threads = -1;
  EXPECT_THAT(problem_with(folder_ / "a.txt"), HasSubstr("--threads is -1"));
}

}  // namespace
}  // namespace convoy::data
