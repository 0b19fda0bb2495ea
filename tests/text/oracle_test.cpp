#include <gtest/gtest.h>

#include "convoy/text/unicode.h"
#include "tests/text/text_testing.h"

namespace convoy::text {
namespace {

namespace fs = std::filesystem;
using namespace testing;  // NOLINT(google-build-using-namespace)

/// Small tokenizers with every supported part: `tokenizers` made them and their answers.
TEST(Oracle, SmallTokenizersGiveTheSameIdsAndTexts) {
  const Json all = fixture("small.json");
  EXPECT_GT(all.size(), 20u);
  for (const Json& one : all) {
    const Folder folder;
    const auto file = folder.write("tokenizer.json", one["tokenizer"].dump());
    const Tokenizer tokenizer = Tokenizer::load(file);
    for (const Json& expected : one["cases"]) {
      const auto text = expected["text"].get<std::string>();
      const auto where = one["name"].get<std::string>() + ": " + expected["text"].dump();
      const std::vector<int32_t> ids = ids_of(tokenizer, text);
      EXPECT_EQ(Json(ids), expected["ids"]) << where;
      EXPECT_EQ(tokenizer.decode(ids), expected["decoded"].get<std::string>()) << where;
      EXPECT_EQ(tokenizer.decode(ids, false), expected["all"].get<std::string>()) << where;
      EXPECT_EQ(ids_of(tokenizer, text), ids) << where << ": the second time, from the cache";
    }
  }
}

/// As units_of() of make_fixtures.py.
std::vector<std::string> units_of(std::string_view text) {
  std::vector<std::string> units{""};
  size_t begin = 0;
  for (;;) {
    const size_t end = text.find('\n', begin);
    units.back() += text.substr(begin, end == text.npos ? end : end + 1 - begin);
    if (end == text.npos) return units;
    begin = end + 1;
    if (units.back().size() >= 1024) units.emplace_back();
  }
}

class Large : public ::testing::TestWithParam<std::string> {};

/// The files that people use, fetched by scripts/fetch_tokenizers.py, on 2 MB of text.
TEST_P(Large, GivesTheSameIds) {
  const fs::path folder = source_folder() / "data/tokenizers";
  if (!fs::exists(folder / "complete")) GTEST_SKIP() << "try scripts/fetch_tokenizers.py";
  const Json expected = fixture("large.json")[GetParam()];
  ASSERT_FALSE(expected.empty());
  const Tokenizer tokenizer = Tokenizer::load(folder / GetParam());
  const bool has_ties = GetParam() == "kyoto" || GetParam() == "botchan_unigram";
  for (const auto& [name, hashes] : expected.items()) {
    std::string text;
    replace_malformed(read_file(folder / "texts" / (name + ".txt")), text);
    const std::vector<std::string> units = units_of(text);
    ASSERT_EQ((units.size() + 31) / 32, hashes.size());
    for (size_t group = 0; group < hashes.size(); ++group) {
      uint64_t hash = kHashStart;
      for (size_t i = 32 * group; i < std::min(units.size(), 32 * group + 32); ++i) {
        std::vector<int32_t> ids = ids_of(tokenizer, units[i]);
        if (has_ties) std::sort(ids.begin(), ids.end());
        for (const int32_t id : ids) hash = hash_with(hash, static_cast<uint64_t>(id));
        hash = hash_with(hash, UINT64_MAX);
        if (GetParam() == "gpt2" || GetParam() == "llama3" || GetParam() == "deepseek") {
          ASSERT_EQ(tokenizer.decode(ids), units[i]) << name << " unit " << i;
        }
      }
      EXPECT_EQ(hex(hash), hashes[group])
          << GetParam() << ": units of " << name << ".txt from " << 32 * group;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Large,
                         ::testing::Values("gpt2", "llama3", "deepseek", "anthropic", "minilm",
                                           "bert", "mistral", "kyoto", "botchan_unigram",
                                           "botchan_bpe"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace convoy::text
