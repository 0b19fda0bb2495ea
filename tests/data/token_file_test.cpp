#include "convoy/data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <numeric>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/data/tools/tokenize.h"
#include "tests/data/parquet_testing.h"

namespace convoy::data {
namespace {
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class TokenFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = unique_folder("convoy-token-file");
    write_file(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\n");
    write_file(folder_ / "text.txt", "a b\n\nc d a\nb\n");
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(TokenFile, TextAndItsIdsGiveTheSame) {
  const auto tokenizer = tokenizers::Tokenizer::load(folder_ / "vocab.txt");
  const auto direct = read_token_texts(folder_ / "text.txt", "text", tokenizer);
  TokenizeOptions options;
  options.inputs = {folder_ / "text.txt"};
  options.tokenizer = folder_ / "vocab.txt";
  options.output = folder_ / "ids.parquet";
  tokenize(options);
  const auto ids = read_token_texts(folder_ / "ids.parquet", "text", std::nullopt);
  EXPECT_THAT(direct.ids->ids(), ElementsAre(2, 5, 6, 3, 2, 3, 2, 7, 8, 5, 3, 2, 6, 3));
  EXPECT_THAT(ids.ids->ids(), ElementsAreArray(direct.ids->ids()));
  EXPECT_FALSE(ids.ids->in_file());
  const auto spilled = read_token_texts(folder_ / "ids.parquet", "text", std::nullopt, 20);
  EXPECT_TRUE(spilled.ids->in_file());
  EXPECT_THAT(spilled.ids->ids(), ElementsAreArray(direct.ids->ids()));
  EXPECT_EQ(spilled.ends, direct.ends);
  EXPECT_EQ(ids.ends, (std::vector<int64_t>{4, 6, 11, 14}));
  EXPECT_EQ(ids.ends, direct.ends);
  EXPECT_EQ(ids.fingerprint, direct.fingerprint);
  EXPECT_EQ(ids.vocab_size, 9);
  EXPECT_EQ(vocab_size_of_ids(folder_ / "ids.parquet", "text"), 9);
  EXPECT_FALSE(vocab_size_of_ids(folder_ / "text.txt", "text").has_value());
}

TEST_F(TokenFile, IdsOfAnotherTokenizerAreRefused) {
  TokenizeOptions options;
  options.inputs = {folder_ / "text.txt"};
  options.tokenizer = folder_ / "vocab.txt";
  options.output = folder_ / "ids.parquet";
  tokenize(options);
  write_file(folder_ / "other/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nb\na\n");
  const auto other = tokenizers::Tokenizer::load(folder_ / "other/vocab.txt");
  EXPECT_THROW(read_token_texts(folder_ / "ids.parquet", "text", other), UsageError);
  EXPECT_THROW(read_token_texts(folder_ / "text.txt", "text", std::nullopt), UsageError);
}

TEST_F(TokenFile, ASizeOfTheVocabularyThatIsNoneIsRefused) {
  const auto file = folder_ / "ids.parquet";
  const auto write = [&](const std::string& size) {
    const std::vector<std::string> keys{kTokenizerKey, kVocabSizeKey}, values{"abc", size};
    testing::write_parquet(file, {{kIdsColumn, testing::lists<arrow::Int32Builder>({{5, 6}, {7}})}},
                           2, parquet::default_writer_properties(),
                           arrow::key_value_metadata(keys, values));
  };
  write("9");
  EXPECT_EQ(vocab_size_of_ids(file, "text"), 9);
  for (const std::string size : {"abc", "-5", "0", "9 ids", "99999999999999999999", ""}) {
    write(size);
    EXPECT_THAT(testing::message_of([&] { vocab_size_of_ids(file, "text"); }),
                HasSubstr(file.string() + ": convoy.vocab_size = '" + size + "'"));
  }
}

/// As `datasets` and pandas write what a tokenizer of theirs gave.
TEST_F(TokenFile, IdsOfOtherToolsAreRead) {
  const auto file = folder_ / "ids.parquet";
  const std::vector<int32_t> all{5, 6, 70000, 0, 8};
  const auto expect = [&](const std::string& column) {
    EXPECT_EQ(vocab_size_of_ids(file, column), 0) << "nobody says how many there are";
    const auto read = read_token_texts(file, column, std::nullopt);
    EXPECT_THAT(read.ids->ids(), ElementsAreArray(all)) << column;
    EXPECT_EQ(read.ends, (std::vector<int64_t>{2, 2, 5})) << column;
    EXPECT_EQ(read.fingerprint, "");
    EXPECT_EQ(read.vocab_size, 0);
  };
  const auto words = testing::words({"a", "b", "c"});
  testing::write_parquet(
      file,
      {{"n", testing::ints({1, 2, 3})},
       {"input_ids", testing::int_lists({{5, 6}, {}, {70000, 0, 8}})},
       {"attention_mask", testing::lists<arrow::Int8Builder>({{1, 1}, {}, {1, 1, 1}})},
       {"labels", testing::int_lists({{5, 6}, {}, {70000, 0, 8}})}},
      2);
  expect("text");
  expect("input_ids");
  testing::write_parquet(file,
                         {{"text", words},
                          {"tokens", testing::lists<arrow::UInt32Builder, arrow::LargeListBuilder>(
                                         {{5, 6}, {}, {70000, 0, 8}})}});
  expect("tokens");
  const auto tokenizer = tokenizers::Tokenizer::load(folder_ / "vocab.txt");
  EXPECT_EQ(read_token_texts(file, "tokens", tokenizer).fingerprint, "");
  EXPECT_THAT(read_token_texts(file, "text", tokenizer).ids->ids(),
              ElementsAre(2, 5, 3, 2, 6, 3, 2, 7, 3));
  EXPECT_THAT(testing::message_of([&] { read_token_texts(file, "text", std::nullopt); }),
              HasSubstr("--column NAME of a column of ids"));
  EXPECT_THAT(
      testing::message_of([&] { read_token_texts(file, "token", std::nullopt); }),
      HasSubstr("column 'token' is missing in " + file.string() + "; did you mean 'tokens'"));
  testing::write_parquet(file, {{"x", testing::float_lists({{5, 6}})}});
  EXPECT_THAT(testing::message_of([&] { read_token_texts(file, "x", std::nullopt); }),
              HasSubstr("holds list<element: float>; expected text, or lists of integers"));
}

TEST_F(TokenFile, ChecksMasksAndLabelsBesideTheIds) {
  const auto file = folder_ / "ids.parquet";
  const auto message_with = [&](const char* name, std::vector<std::vector<int64_t>> beside) {
    testing::write_parquet(file,
                           {{"input_ids", testing::int_lists({{5, 6}, {7, 8, 9}, {1}})},
                            {name, testing::int_lists(beside)}},
                           2);
    return testing::message_of([&] { read_token_texts(file, "text", std::nullopt); });
  };
  const std::string read = testing::message_of([] {});
  EXPECT_EQ(message_with("attention_mask", {{1, 1}, {1, 1, 1}, {1}}), read);
  EXPECT_THAT(message_with("attention_mask", {{1, 1}, {1, 1, 0}, {1}}),
              HasSubstr("ids.parquet: attention_mask is 0 in row 1; expected ids without padding"));
  for (const float last : {1.0F, 0.0F}) {  // as numpy writes it
    testing::write_parquet(file, {{"input_ids", testing::int_lists({{5, 6}, {7, 8}})},
                                  {"attention_mask", testing::float_lists({{1, 1}, {1, last}})}});
    EXPECT_THAT(testing::message_of([&] { read_token_texts(file, "text", std::nullopt); }),
                HasSubstr(last == 1 ? read : "attention_mask is 0 in row 1"));
  }
  for (const bool last : {true, false}) {
    testing::write_parquet(
        file, {{"input_ids", testing::int_lists({{5, 6}, {7, 8}})},
               {"attention_mask", testing::lists<arrow::BooleanBuilder, arrow::ListBuilder, bool>(
                                      {{true, true}, {true, last}})}});
    EXPECT_THAT(testing::message_of([&] { read_token_texts(file, "text", std::nullopt); }),
                HasSubstr(last ? read : "attention_mask is 0 in row 1"));
  }
  EXPECT_EQ(message_with("labels", {{5, 6}, {7, 8, 9}, {1}}), read);
  EXPECT_THAT(message_with("labels", {{5, 6}, {7, 8, 9}, {-100}}),
              HasSubstr("ids.parquet: labels differ from input_ids in row 2; expected the same"));
  EXPECT_THAT(message_with("labels", {{5, 6}, {7, 8}, {1}}), HasSubstr("lists of equal length"));
  testing::write_parquet(file, {{"input_ids", testing::int_lists({{5, -6}})}});
  EXPECT_THAT(testing::message_of([&] { read_token_texts(file, "text", std::nullopt); }),
              HasSubstr("holds id -6; expected 0 to 2147483647; try convoy data tokenize, or "
                        "--column NAME of another column of ids"));
}

// Of datasets whose rows are several texts.
TEST_F(TokenFile, ListsOfListsAreNoIds) {
  const auto file = folder_ / "ids.parquet";
  auto values = std::make_shared<arrow::Int64Builder>();
  auto inner = std::make_shared<arrow::ListBuilder>(arrow::default_memory_pool(), values);
  arrow::ListBuilder outer(arrow::default_memory_pool(), inner);
  for (int64_t row = 0; row < 3; ++row) {
    testing::ok(outer.Append());
    for (int64_t text = 0; text <= row; ++text) {
      testing::ok(inner->Append());
      testing::ok(values->Append(5 + text));
    }
  }
  testing::write_parquet(file, {{"nested", outer.Finish().ValueOrDie()},
                                {"tokens", testing::int_lists({{5}, {6}, {7}})}});
  EXPECT_THAT(testing::message_of([&] { read_token_texts(file, "nested", std::nullopt); }),
              HasSubstr("column 'nested' of " + file.string() +
                        " holds list<element: list<element: int64>>; expected text, or lists of "
                        "integers"));
  EXPECT_THAT(read_token_texts(file, "tokens", std::nullopt).ids->ids(), ElementsAre(5, 6, 7));
}

TEST(TokenStore, HoldsTheSameInMemoryAndInAFile) {
  std::vector<int32_t> all(100000);
  std::iota(all.begin(), all.end(), -50000);
  for (const int64_t budget : {int64_t{0}, int64_t{150000}, TokenStore::kNoLimit}) {
    TokenStore store(budget);
    EXPECT_TRUE(store.ids().empty());
    for (size_t at = 0; at < all.size(); at += 700) {
      store.append(std::span(all).subspan(at, std::min<size_t>(700, all.size() - at)));
    }
    EXPECT_EQ(store.in_file(), budget != TokenStore::kNoLimit) << budget;
    EXPECT_EQ(store.size(), std::ssize(all));
    const auto ids = store.ids();
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), all.begin(), all.end())) << budget;
  }
}

TEST(TokenStore, GrowsWithoutACopyBesideIt) {
  const auto peak = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return int64_t{usage.ru_maxrss} << 10;
  };
  const std::vector<int32_t> some(1 << 16, 7);
  const int64_t before = peak();
  TokenStore store;
  // One more than a power of two: what doubles has just held all of them twice.
  for (int i = 0; i < 257; ++i) store.append(some);
  const int64_t bytes = 4 * store.size();
  EXPECT_EQ(bytes, 257 << 18);
  EXPECT_LT(peak() - before, bytes + (16 << 20));
  EXPECT_EQ(store.ids().back(), 7);
}

// blocks.json holds what Hugging Face's datasets made of the same texts (make_blocks_fixture.py).
TEST(CutBlocks, GivesHuggingFacesBlocksTokenForToken) {
  const auto path = std::string(CONVOY_SOURCE_DIR) + "/tests/data/blocks.json";
  const auto cases = parse_json(read_file(path), path).at("cases");
  ASSERT_EQ(cases.size(), 6U);
  for (const auto& expected : cases) {
    const auto number = [&](const char* key) { return expected.at(key).get<int64_t>(); };
    TokenTexts texts;
    int64_t end = 0;
    for (int64_t i = 0; i < number("num_texts"); ++i) {
      end += (7 * i * i + 3 * i) % number("most");
      texts.ends.push_back(end);
    }
    const int64_t held_out = num_held_out(texts.size(), expected.at("percent").get<double>());
    EXPECT_EQ(held_out, number("held_out")) << texts.size();
    const auto blocks = [&](int64_t first, int64_t last) {
      return cut_blocks(texts, first, last, /*texts_at_once=*/1000, number("block_size"));
    };
    EXPECT_EQ(blocks(0, held_out), expected.at("valid").get<std::vector<int64_t>>());
    EXPECT_EQ(blocks(held_out, texts.size()), expected.at("train").get<std::vector<int64_t>>());
  }
}

TEST(CutBlocks, JoinsSoManyTextsAndDropsTheRest) {
  TokenTexts texts;
  texts.ends = {3, 7, 8, 15, 23};
  using Blocks = std::vector<int64_t>;
  EXPECT_EQ(cut_blocks(texts, 0, 5, 0, 5), (Blocks{0, 5, 10, 15}));
  EXPECT_EQ(cut_blocks(texts, 0, 5, 2, 5), (Blocks{0, 7, 15}))
      << "7 tokens, 8, and 8: each gives a block and drops its rest";
  EXPECT_EQ(cut_blocks(texts, 3, 5, 0, 5), (Blocks{8, 13, 18}));
  EXPECT_TRUE(cut_blocks(texts, 0, 1, 0, 5).empty());
}

}  // namespace
}  // namespace convoy::data
