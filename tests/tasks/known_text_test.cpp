#include "convoy/tasks/known_text.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "tests/train/testing.h"

namespace convoy::tasks {
namespace {

using KnownText = train::InFolder;

TEST_F(KnownText, BlanksSayNothing) {
  const Json metaspace{{"type", "Metaspace"},
                       {"replacement", "\u2581"},
                       {"prepend_scheme", "always"},
                       {"split", true}};
  const auto vocabulary =
      Json::parse(R"([["<unk>", 0], ["\u2581", -2], ["\u2581he", -3], ["e", -4]])");
  const Json json{{"pre_tokenizer", metaspace},
                  {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocabulary}}}};
  write_file(folder_ / "tokenizer.json", json.dump());
  const auto tokenizer = tokenizers::Tokenizer::load(folder_);
  const auto unknown = [&](const char* text) {
    std::vector<int32_t> ids;
    tokenizer.encode(text, ids);
    return is_unknown(tokenizer, ids, {});
  };
  EXPECT_TRUE(unknown("\u65e5\u672c"));
  EXPECT_TRUE(unknown("\u65e5\u672c \u8a9e")) << "with a blank in front of each word";
  EXPECT_FALSE(unknown("\u65e5\u672c he"));
  EXPECT_FALSE(unknown(" ")) << "nothing in it is unknown";
  EXPECT_FALSE(unknown(""));
}

}  // namespace
}  // namespace convoy::tasks
