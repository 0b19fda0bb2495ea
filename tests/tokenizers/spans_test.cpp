#include <gtest/gtest.h>

#include <map>

#include "convoy/base/error.h"
#include "tests/tokenizers/text_testing.h"

// Which bytes of a text tokens stand for.
namespace convoy::tokenizers {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

std::map<std::string, Json> small_tokenizers() {
  std::map<std::string, Json> out;
  for (const Json& one : fixture("small.json")) out[one["name"]] = one["tokenizer"];
  return out;
}

Tokenizer load(const Json& tokenizer) {
  const Folder folder;
  return Tokenizer::load(folder.write("tokenizer.json", tokenizer.dump()));
}

/// make_spans_fixture.py wrote the offsets of `tokenizers`.
TEST(TokenSpans, AreThoseOfTokenizers) {
  const Json all = fixture("spans.json");
  auto tokenizers = small_tokenizers();
  EXPECT_GT(all["tokenizers"].size(), 9u);
  for (const auto& [name, cases] : all["tokenizers"].items()) {
    const auto tokenizer = load(tokenizers[name]);
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto text = all["texts"][i].get<std::string>();
      std::vector<int32_t> ids;
      std::vector<TokenSpan> spans;
      tokenizer.encode_with_spans(text, ids, spans);
      Json made = Json::array();
      for (const auto& [begin, end] : spans) made.push_back({begin, end});
      EXPECT_EQ(Json(ids), cases[i][0]) << name << ": " << all["texts"][i].dump();
      EXPECT_EQ(made, cases[i][1]) << name << ": " << all["texts"][i].dump();
      EXPECT_EQ(ids, ids_of(tokenizer, text, /*add_special_tokens=*/false));
    }
  }
}

TEST(TokenSpans, AreRefusedWhereNobodyKnows) {
  auto tokenizers = small_tokenizers();
  for (const char* name : {"bert", "t5", "nfkc", "suffix", "words", "unigram_words"}) {
    EXPECT_THROW(load(tokenizers[name]).check_tells_spans(), UsageError) << name;
  }
  const auto tokenizer = load(tokenizers["gpt2"]);
  EXPECT_NO_THROW(tokenizer.check_tells_spans());
  std::vector<int32_t> ids;
  std::vector<TokenSpan> spans;
  EXPECT_THROW(tokenizer.encode_with_spans("a\xFF", ids, spans), UsageError);
}

}  // namespace
}  // namespace convoy::tokenizers
