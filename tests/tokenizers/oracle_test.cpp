#include <gtest/gtest.h>

#include "convoy/base/base64.h"
#include "convoy/tokenizers/load/sentencepiece_file.h"
#include "convoy/tokenizers/unicode/unicode.h"
#include "tests/tokenizers/text_testing.h"

namespace convoy::tokenizers {
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

/// Symbols of the user's that overlap, as SentencePiece 0.2.3 cuts them; tokens added by
/// tokenizer_config.json and added_tokens.json, as transformers 5.23 does.
TEST(Oracle, SentencePieceModelsGiveTheSameIdsAndTexts) {
  const Json all = fixture("sentencepiece.json");
  EXPECT_GT(all.size(), 10u);
  for (const Json& one : all) {
    const Folder folder;
    for (const auto& [name, content] : one["files"].items()) {
      folder.write(name, from_base64(content.get<std::string>()).value());
    }
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    for (const Json& expected : one["cases"]) {
      const auto where = one["name"].get<std::string>() + ": " + expected["text"].dump();
      const std::vector<int32_t> ids = ids_of(tokenizer, expected["text"].get<std::string>());
      EXPECT_EQ(Json(ids), expected["ids"]) << where;
      if (!expected.contains("all")) continue;
      EXPECT_EQ(tokenizer.decode(ids), expected["decoded"].get<std::string>()) << where;
      // Where the settings do not list <s> it is a piece like any other, of which nothing is shown.
      if (one["files"].contains("added_tokens.json")) continue;
      EXPECT_EQ(tokenizer.decode(ids, false), expected["all"].get<std::string>()) << where;
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

std::string base64(std::string_view bytes) {
  const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int num_bits = 0;
  const auto put = [&](int count) { out += digits[(bits >> count) & 63]; };
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(c);
    for (num_bits += 8; num_bits >= 6; num_bits -= 6) put(num_bits - 6);
  }
  if (num_bits > 0) {
    bits <<= 6 - num_bits;
    put(0);
  }
  while (out.size() % 4 != 0) out += '=';
  return out;
}

/// The tokenizer.json that does as a SentencePiece model; tokenizer_of() of make_fixtures.py.
Json json_of_model(const fs::path& path) {
  const std::string bytes = read_file(path);
  const auto file = read_sentencepiece(bytes, path.string());
  Json vocabulary = Json::array(), unk_id;
  for (const auto& piece : file.pieces) {
    if (piece.type == SentencePieceFile::kUnknown) unk_id = vocabulary.size();
    vocabulary.push_back({piece.text, static_cast<double>(piece.score)});
  }
  const Json map{{"type", "Precompiled"}, {"precompiled_charsmap", base64(file.chars_map)}};
  const Json spaces{{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}};
  return {{"normalizer", {{"type", "Sequence"}, {"normalizers", {map, spaces}}}},
          {"pre_tokenizer",
           {{"type", "Metaspace"},
            {"replacement", "\u2581"},
            {"prepend_scheme", "always"},
            {"split", true}}},
          {"model", {{"type", "Unigram"}, {"unk_id", unk_id}, {"vocab", vocabulary}}}};
}

class Large : public ::testing::TestWithParam<std::string> {
 protected:
  static Tokenizer load(const fs::path& data) {
    const std::string& name = GetParam();
    const size_t json = name.find("_json");
    if (json == name.npos) return Tokenizer::load(data / name);
    const Folder folder;
    const auto model = data / name.substr(0, json) / "tokenizer.model";
    return Tokenizer::load(folder.write("tokenizer.json", json_of_model(model).dump()));
  }
};

/// The files that people use, fetched by scripts/fetch_tokenizers.py, on 2 MB of text.
TEST_P(Large, GivesTheSameIds) {
  const fs::path folder = source_folder() / "data/tokenizers";
  if (!fs::exists(folder / "complete")) GTEST_SKIP() << "try scripts/fetch_tokenizers.py";
  const Json expected = fixture("large.json")[GetParam()];
  ASSERT_FALSE(expected.empty());
  const Tokenizer tokenizer = load(folder);
  for (const auto& [name, hashes] : expected.items()) {
    std::string text;
    replace_malformed(read_file(folder / "texts" / (name + ".txt")), text);
    const std::vector<std::string> units = units_of(text);
    ASSERT_EQ((units.size() + 31) / 32, hashes.size());
    for (size_t group = 0; group < hashes.size(); ++group) {
      uint64_t hash = kHashStart;
      for (size_t i = 32 * group; i < std::min(units.size(), 32 * group + 32); ++i) {
        const std::vector<int32_t> ids = ids_of(tokenizer, units[i]);
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
                                           "botchan_bpe", "kyoto_json", "botchan_unigram_json"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace convoy::tokenizers
