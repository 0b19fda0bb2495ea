#include "convoy/tasks/language/sentinel_tokens.h"

#include <fmt/format.h>

#include "convoy/base/files.h"
#include "convoy/models/t5/t5.h"
#include "tests/train/testing.h"

namespace convoy::tasks {
namespace {

using SentinelNames = train::InFolder;

const models::SpanTokens kTokens = models::T5Config().span_tokens();
constexpr const char* kWords = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhe\nran\nto\n";

/// Published T5s have more rows than ids: <extra_id_0> is the tokenizer's last id and 100, as
/// T5Tokenizer of transformers has it.
TEST_F(SentinelNames, FollowTheTokenizersIdsNotTheModelsRows) {
  write_file(folder_ / "vocab.txt", kWords);
  const auto tokenizer = tokenizers::Tokenizer::load(folder_);
  for (const int64_t num_ids : {108, 128, 136}) {
    const Sentinels sentinels(kTokens, &tokenizer, num_ids);
    ASSERT_EQ(sentinels.ids().size(), 100U) << num_ids;
    EXPECT_EQ(sentinels.ids().front(), 107) << num_ids;
    EXPECT_EQ(sentinels.ids().back(), 8) << num_ids;
    const std::vector<int32_t> said{5, 107, 7};
    EXPECT_EQ(sentinels.encode(tokenizer, "he <extra_id_0> to"), said) << num_ids;
    EXPECT_EQ(sentinels.decode(tokenizer, said), "he <extra_id_0> to") << num_ids;
  }
  EXPECT_EQ(Sentinels(kTokens, &tokenizer, 11).ids(), (std::vector<int64_t>{10, 9, 8}));
  EXPECT_TRUE(Sentinels(kTokens, &tokenizer, 8).ids().empty());
  EXPECT_EQ(Sentinels(kTokens, nullptr, 128).ids().front(), 127);
  EXPECT_EQ(Sentinels(kTokens, nullptr, 50).ids().size(), 50U);
}

/// Of a tokenizer that knows no sentinels.
TEST_F(SentinelNames, AreReadInAnyOrderAndNumber) {
  write_file(folder_ / "vocab.txt", kWords);
  const auto tokenizer = tokenizers::Tokenizer::load(folder_);
  const Sentinels sentinels(kTokens, &tokenizer, /*num_ids=*/108);
  ASSERT_EQ(sentinels.ids().size(), 100U);
  ASSERT_EQ(sentinels.ids()[0], 107);
  const auto ids = [&](const std::string& text) { return sentinels.encode(tokenizer, text); };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(ids("he <extra_id_0> to <extra_id_1>"), (Ids{5, 107, 7, 106}));
  EXPECT_EQ(ids("he <extra_id_1> to"), (Ids{5, 106, 7}));
  EXPECT_EQ(ids("<extra_id_5>"), (Ids{102}));
  EXPECT_EQ(ids("<extra_id_1>he<extra_id_0> <extra_id_0>to"), (Ids{106, 5, 107, 107, 7}));
  EXPECT_EQ(ids("ran <extra_id_99>"), (Ids{6, 8}));
  EXPECT_EQ(sentinels.decode(tokenizer, ids("he <extra_id_3> to")), "he <extra_id_3> to");
  // What is none stays text.
  for (const char* text : {"he <extra_id_100> to", "he <extra_id_01> to", "he <extra_id_-1> to",
                           "he <extra_id_0 to", "he <extra_id_> to"}) {
    for (const int32_t id : ids(text)) EXPECT_LT(id, 8) << text;
  }
  EXPECT_EQ(ids("<extra_id_<extra_id_2>").back(), 105);
}

/// Of another family.
TEST_F(SentinelNames, AreTheFamilysOwn) {
  write_file(folder_ / "vocab.txt", kWords);
  const auto tokenizer = tokenizers::Tokenizer::load(folder_);
  const Sentinels sentinels({"[gap ", "]", 3}, &tokenizer, /*num_ids=*/20);
  EXPECT_EQ(sentinels.ids(), (std::vector<int64_t>{10, 9, 8}));
  const std::vector<int32_t> said{5, 9, 7};
  EXPECT_EQ(sentinels.encode(tokenizer, "he [gap 1] to"), said);
  EXPECT_EQ(sentinels.decode(tokenizer, said), "he [gap 1] to");
}

}  // namespace
}  // namespace convoy::tasks
