#include "convoy/tokenizers/unicode/unicode.h"

#include <gtest/gtest.h>

#include <functional>

#include "convoy/tokenizers/normalizer.h"
#include "convoy/tokenizers/pre_tokenizer.h"
#include "convoy/tokenizers/unicode/regex.h"
#include "tests/tokenizers/text_testing.h"

namespace convoy::tokenizers {
namespace {

using testing::fixture;
using testing::hash_with;
using testing::hex;
using testing::kHashStart;

constexpr size_t kBlock = 0x4000;  // of make_fixtures.py

std::vector<char32_t> scalars() {
  std::vector<char32_t> all;
  for (char32_t c = 0; c < kNumCodePoints; ++c) {
    if (c < 0xD800 || c >= 0xE000) all.push_back(c);
  }
  return all;
}

std::string utf8(char32_t c) {
  std::string text;
  append_utf8(c, text);
  return text;
}

std::vector<bool> members(const Json& ranges) {
  std::vector<bool> in(kNumCodePoints);
  for (const Json& range : ranges) {
    for (size_t c = range[0]; c <= range[1].get<size_t>(); ++c) in[c] = true;
  }
  return in;
}

class EveryScalar : public ::testing::Test {
 protected:
  static const Json& expected() {
    static const Json kExpected = fixture("scalars.json");
    return kExpected;
  }
};

TEST_F(EveryScalar, HasTheClassThatTokenizersSees) {
  const auto letters = members(expected()["letters"]);
  const auto numbers = members(expected()["numbers"]);
  const auto spaces = members(expected()["spaces"]);
  const Characters& characters = Characters::get();
  for (const char32_t c : scalars()) {
    ASSERT_EQ(characters.is_letter(c), letters[c]) << "U+" << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(characters.is_number(c), numbers[c]) << "U+" << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(characters.is_space(c), spaces[c]) << "U+" << std::hex << static_cast<uint32_t>(c);
  }
}

TEST_F(EveryScalar, HasTheSameClassInARegularExpression) {
  const std::pair<const char*, const char*> classes[] = {
      {"\\p{L}", "letters"},    {"[\\p{N}]", "numbers"}, {"\\s", "spaces"},
      {"[^\\P{L}]", "letters"}, {"\\P{^N}", "numbers"},  {"[^\\S]", "spaces"}};
  for (const auto& [pattern, key] : classes) {
    const auto in = members(expected()[key]);
    const Regex regex(pattern, "test");
    Regex::Match match;
    for (const char32_t c : scalars()) {
      ASSERT_EQ(regex.search(utf8(c), 0, match), in[c])
          << pattern << " U+" << std::hex << static_cast<uint32_t>(c);
    }
  }
}

TEST_F(EveryScalar, IsNormalizedAsTokenizersDoes) {
  const std::vector<char32_t> all = scalars();
  for (const auto& [name, hashes] : expected()["hashes"].items()) {
    const Json description{{"type", name}};
    const auto steps = make_normalizers(JsonField(description, "test"));
    size_t block = 0;
    for (size_t begin = 0; begin < all.size(); begin += kBlock, ++block) {
      std::string text;
      for (size_t i = begin; i < std::min(begin + kBlock, all.size()); ++i) {
        if (i > begin) text += '\n';
        text += "a" + utf8(all[i]) + "\xCC\xB4\xCC\x81" + utf8(all[i]);
      }
      std::string buffer;
      uint64_t hash = kHashStart;
      for (const char byte : normalize(steps, text, buffer)) {
        hash = hash_with(hash, static_cast<unsigned char>(byte));
      }
      EXPECT_EQ(hex(hash), hashes[block]) << name << " from U+" << std::hex << all[begin] + 0u;
    }
    EXPECT_EQ(block, hashes.size());
  }
}

class EveryScalarBetweenLetters : public EveryScalar,
                                  public ::testing::WithParamInterface<const char*> {};

TEST_P(EveryScalarBetweenLetters, IsCutAsTokenizersDoes) {
  const std::vector<char32_t> all = scalars();
  const Json description{{"type", GetParam()}};
  const PreTokenizers words = make_pre_tokenizers(JsonField(description, "test"));
  size_t block = 0;
  for (size_t begin = 0; begin < all.size(); begin += kBlock, ++block) {
    std::string text;
    for (size_t i = begin; i < std::min(begin + kBlock, all.size()); ++i) {
      text += "a" + utf8(all[i]) + "b";
    }
    Pieces pieces;
    pieces.text = text;
    pieces.pieces = {{0, text.size()}};
    for (const auto& step : words.steps) step(pieces);
    uint64_t hash = kHashStart;
    size_t done = 0;
    size_t count = 0;
    const auto count_to = [&](size_t byte) {
      for (; done < byte; ++count) next_character(text, done);
      return count;
    };
    for (const auto& [from, to] : pieces.pieces) {
      hash = hash_with(hash, count_to(from));
      hash = hash_with(hash, count_to(to));
    }
    EXPECT_EQ(hex(hash), expected()["cuts"][GetParam()][block])
        << "from U+" << std::hex << all[begin] + 0u;
  }
}

INSTANTIATE_TEST_SUITE_P(PreTokenizers, EveryScalarBetweenLetters,
                         ::testing::Values("BertPreTokenizer", "Whitespace", "Digits",
                                           "Punctuation"));

TEST(Unicode, ReplacesWhatIsNotUtf8AsPythonDoes) {
  const std::tuple<std::string, std::string, size_t> cases[] = {
      {"abc", "abc", 0},
      {"a\xFFz", "a\xEF\xBF\xBDz", 1},
      {"\xE6\x97z", "\xEF\xBF\xBDz", 1},                            // cut short: one
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 3},  // a surrogate: three
      {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD", 2},                  // overlong
      {"\xF0\x9F\x98", "\xEF\xBF\xBD", 1},
      {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 4},
      {"12345678\xE9"
       "12345678",
       "12345678\xEF\xBF\xBD"
       "12345678",
       1}};
  for (const auto& [bytes, expected, count] : cases) {
    std::string out;
    EXPECT_EQ(replace_malformed(bytes, out), count);
    EXPECT_EQ(out, expected);
  }
}

}  // namespace
}  // namespace convoy::tokenizers
