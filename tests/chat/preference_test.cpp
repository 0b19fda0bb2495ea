#include "convoy/chat/preference.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"

// Pairs of answers: which columns they are read from, and which tokens are compared.
namespace convoy::chat {
namespace {

namespace fs = std::filesystem;

Preference pair(const std::string& row) {
  return read_preference(OrderedJson::parse(row), "a row");
}

/// Roles and contents, the answer behind a bar.
std::string text_of(const Conversation& one) {
  if (one.is_text()) return one.prompt + "|" + one.completion;
  std::string out;
  for (size_t i = 0; i < one.dialogue.messages.size(); ++i) {
    const auto& message = one.dialogue.messages[i];
    out += (i == one.num_prompt ? "|" : "") + message["role"].get<std::string>().substr(0, 1) +
           ":" + message["content"].get<std::string>() + " ";
  }
  return out;
}

void expect_error(const std::string& row, const std::string& part) {
  try {
    pair(row);
    ADD_FAILURE() << "no error for " << row;
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

constexpr const char* kMessages = R"({
    "prompt": [{"role": "system", "content": "Be kind"}, {"role": "user", "content": "Hi"}],
    "chosen": [{"role": "assistant", "content": "Hello"}],
    "rejected": [{"role": "assistant", "content": "No"}],
    "tools": [{"name": "f"}], "chat_template_kwargs": {"a": 1}})";

TEST(Preferences, AreReadFromMessagesOrTexts) {
  const auto messages = pair(kMessages);
  EXPECT_EQ(text_of(messages.chosen), "s:Be kind u:Hi |a:Hello ");
  EXPECT_EQ(text_of(messages.rejected), "s:Be kind u:Hi |a:No ");
  for (const auto* one : {&messages.chosen, &messages.rejected}) {
    EXPECT_EQ(one->dialogue.tools[0]["name"], "f");
    EXPECT_EQ(one->dialogue.arguments["a"], 1);
  }
  const auto texts = pair(R"({"prompt": "The sky is", "chosen": " blue", "rejected": " red"})");
  EXPECT_EQ(text_of(texts.chosen), "The sky is| blue");
  EXPECT_EQ(text_of(texts.rejected), "The sky is| red");
}

TEST(Preferences, TakeNoPromptOfAnotherKind) {
  const auto with = [](const std::string& prompt) {
    return R"({"prompt": )" + prompt + R"(, "chosen": "a b", "rejected": "a c"})";
  };
  expect_error(with("true"), "a row: prompt is a boolean; expected a text, or a list of messages");
  expect_error(with("5"), "prompt is a number");
  expect_error(with(R"({"role": "user", "content": "Hi"})"), "prompt is an object");
  expect_error(with("[]"), "prompt is an empty list");
  EXPECT_EQ(text_of(pair(with("null")).chosen), "a| b");
  expect_error(R"({"chosen": "a", "rejected": [{"role": "assistant", "content": "b"}]})",
               "rejected is of another kind than chosen");
}

TEST(Preferences, FindAPromptThatBothAnswersBeginWith) {
  const auto messages = pair(R"({"prompt": "Hi", "score_chosen": 8,
      "chosen": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
      "rejected": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "No"}]})");
  EXPECT_EQ(text_of(messages.chosen), "u:Hi |a:Hello ");
  EXPECT_EQ(text_of(messages.rejected), "u:Hi |a:No ");
  // A prompt's text is what the user said where the answers stand alone.
  const auto alone = pair(R"({"prompt": "Hi", "chosen": [{"role": "assistant", "content": "A"}],
      "rejected": [{"role": "assistant", "content": "B"}]})");
  EXPECT_EQ(text_of(alone.rejected), "u:Hi |a:B ");
  // Of texts a blank goes to the answer, and no character is torn; one may be how the other begins.
  const auto texts = pair(R"({"chosen": "It is blue", "rejected": "It is red"})");
  EXPECT_EQ(text_of(texts.chosen), "It is| blue");
  EXPECT_EQ(text_of(texts.rejected), "It is| red");
  EXPECT_EQ(text_of(pair(R"({"chosen": "x\u00e4", "rejected": "x\u00f6"})").chosen), "x|\xc3\xa4");
  EXPECT_EQ(text_of(pair(R"({"chosen": "abc", "rejected": "abcd"})").chosen), "ab|c");
}

// Columns of tables are of one type each.
TEST(Preferences, AreReadFromTextsOfJson) {
  const auto both = pair(R"({"prompt": "[{\"role\": \"user\", \"content\": \"Hi\"}]",
      "chosen": " [{\"role\": \"assistant\", \"content\": \"A\"}]",
      "rejected": "[{\"role\": \"assistant\", \"content\": \"B\"}]"})");
  EXPECT_EQ(text_of(both.chosen), "u:Hi |a:A ");
  EXPECT_EQ(text_of(both.rejected), "u:Hi |a:B ");
  const auto one = pair(R"({"prompt": "Hi", "chosen": [{"role": "assistant", "content": "A"}],
      "rejected": "[{\"role\": \"assistant\", \"content\": \"B\"}]"})");
  EXPECT_EQ(text_of(one.rejected), "u:Hi |a:B ");
  // Texts stay texts: of other lists, of what is no JSON, and beside a text.
  EXPECT_EQ(text_of(pair(R"({"prompt": "[1", "chosen": "[2]", "rejected": "[\"a\"]"})").chosen),
            "[1|[2]");
  EXPECT_EQ(text_of(pair(R"({"prompt": "[{\"role\": \"user\"}]", "chosen": "a",
      "rejected": "[{\"role\": \"user\"}]"})")
                        .rejected),
            R"([{"role": "user"}]|[{"role": "user"}])");
  EXPECT_EQ(text_of(pair(R"({"prompt": "", "chosen": "[]", "rejected": "[{}]"})").chosen), "|[]");
}

TEST(Preferences, RefuseRowsThatStateNoPreference) {
  expect_error(R"([1])", "a row is no object; expected one with chosen and rejected");
  expect_error(R"({"prompt": "a", "chosen": "b"})", "a row: rejected is missing");
  expect_error(R"({"chosen": 3, "rejected": "b"})", "a row: chosen is a number");
  expect_error(R"({"chosen": [], "rejected": []})", "a row: chosen is an empty list");
  expect_error(R"({"chosen": "b", "rejected": [{"role": "user", "content": "b"}]})",
               "two texts, or two lists of messages");
  expect_error(R"({"prompt": "p", "chosen": "b", "rejected": "b"})",
               "a row: chosen and rejected are the same");
  expect_error(R"({"prompt": "p", "chosen": "", "rejected": "b"})", "a row has an empty chosen");
  expect_error(R"({"prompt": [{"role": "user", "content": "p"}], "chosen": "a", "rejected": "b"})",
               "expected all of one kind");
  expect_error(R"({"chosen": [{"content": "b"}], "rejected": [{"role": "user"}]})",
               "prompt with chosen: message 1 has no role");
}

/// A tokenizer with ChatML's tokens, as make_fixtures.py has it.
class PreferenceTokens : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto masks = fs::path(CONVOY_SOURCE_DIR) / "tests/chat/masks.json";
    write_file(folder_ / "tokenizer.json",
               parse_json(read_file(masks), "masks.json")["tokenizer"].dump());
    write_file(folder_ / "tokenizer_config.json",
               R"({"bos_token": "<s>", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::optional<ChatTemplate> chat_of(const std::string& source) const {
    write_file(folder_ / kChatTemplate, source);
    return ChatTemplate::find(folder_);
  }
  /// Both answers, targets in [[ ]].
  std::string shown_rows(const std::string& row, const std::optional<ChatTemplate>& chat = {}) {
    const auto tokenizer = tokenizers::Tokenizer::load(folder_);
    const auto rows = rows_of(tokenizer, chat ? &*chat : nullptr, pair(row));
    return shown(tokenizer, rows.chosen) + " / " + shown(tokenizer, rows.rejected);
  }

  const fs::path folder_ = unique_folder("convoy-preference-");
};

TEST_F(PreferenceTokens, CompareTheAnswersWithTheirEnds) {
  const auto chat = chat_of(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  EXPECT_EQ(shown_rows(R"({"prompt": [{"role": "user", "content": "Hi"}],
      "chosen": [{"role": "assistant", "content": "Yes"}],
      "rejected": [{"role": "assistant", "content": "No"}]})",
                       chat),
            "<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n[[Yes<|im_end|>\\n]] / "
            "<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n[[No<|im_end|>\\n]]");
  // Texts end with the end of texts, once.
  EXPECT_EQ(shown_rows(R"({"prompt": "a", "chosen": "b<|im_end|>", "rejected": "c"})"),
            "a[[b<|im_end|>]] / a[[c<|im_end|>]]");
  EXPECT_EQ(shown_rows(R"({"prompt": "", "chosen": "bcd", "rejected": "c"})").find("[["), 1u)
      << "nothing stands before the first token";
}

// A template that ends the prompt otherwise where an answer follows.
TEST_F(PreferenceTokens, BeginWhereTheyPartFromThePromptAlone) {
  const auto chat = chat_of(
      "{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>????{% endif %}");
  EXPECT_EQ(shown_rows(R"({"prompt": [{"role": "user", "content": "Hi"}],
      "chosen": [{"role": "assistant", "content": "Yes"}],
      "rejected": [{"role": "assistant", "content": "No"}]})",
                       chat),
            "<|im_start|>Hi<|im_start|>[[Yes]] / <|im_start|>Hi<|im_start|>[[No]]");
}

TEST_F(PreferenceTokens, ReportPromptTokensThatNeitherAnswerKeeps) {
  const auto tokenizer = tokenizers::Tokenizer::load(folder_);
  const auto lost = [&](const char* row) {
    return tokenizer.decode(rows_of(tokenizer, nullptr, pair(row)).lost);
  };
  EXPECT_EQ(lost(R"({"prompt": "say it", "chosen": " low", "rejected": " the"})"), "");
  // " low" is one token, and so is " the".
  EXPECT_EQ(lost(R"({"prompt": "say ", "chosen": "low", "rejected": "it"})"), " ");
  EXPECT_EQ(lost(R"({"prompt": "say th", "chosen": "at", "rejected": "e"})"), " th");
}

TEST_F(PreferenceTokens, NeedATemplateForMessages) {
  EXPECT_THROW(shown_rows(kMessages), UsageError);
  EXPECT_THROW(shown_rows(kMessages, chat_of("{{ raise_exception('no') }}")), UsageError);
}

}  // namespace
}  // namespace convoy::chat
