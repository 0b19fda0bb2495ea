#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/chat/row.h"

// Which tokens of a conversation a model learns.
namespace convoy::chat {
namespace {

namespace fs = std::filesystem;

const fs::path kHere = fs::path(CONVOY_SOURCE_DIR) / "tests/chat";

OrderedJson read_ordered(const char* name) {
  return OrderedJson::parse(read_file(kHere / name));
}

/// Folder of a tokenizer with a chat template, as make_fixtures.py has them.
class Answers : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "tokenizer.json", read_ordered("masks.json")["tokenizer"].dump());
    write_file(folder_ / "tokenizer_config.json",
               R"({"bos_token": "<s>", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})");
  }
  void TearDown() override { fs::remove_all(folder_); }

  ChatTemplate chat_of(const std::string& source) const {
    write_file(folder_ / kChatTemplate, source);
    return *ChatTemplate::find(folder_);
  }
  tokenizers::Tokenizer tokenizer() const { return tokenizers::Tokenizer::load(folder_); }

  /// Rendered conversation of these roles and contents, answers in [[ ]].
  static std::string marked(const Rendered& rendered) {
    std::string out;
    size_t done = 0;
    for (const auto& [begin, end] : rendered.answers) {
      out += rendered.text.substr(done, begin - done) + "[[" +
             rendered.text.substr(begin, end - begin) + "]]";
      done = end;
    }
    return out + rendered.text.substr(done);
  }
  static Conversation conversation(const std::string& row) {
    return read_conversation(OrderedJson::parse(row), "a row");
  }
  /// Two turns.
  static Conversation two_turns() {
    return conversation(R"({"messages": [{"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello! "}, {"role": "user", "content": "So?"},
        {"role": "assistant", "content": "Fine."}]})");
  }

  const fs::path folder_ = unique_folder("convoy-chat-");
};

constexpr const char* kChatMl =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// As kChatMl, but the last answer has an empty thought in front, as Qwen 3's.
constexpr const char* kThinks =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.last "
    "%}<think></think>{% endif %}{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

TEST_F(Answers, GenerationTagsGiveTransformersMasks) {
  const auto expected = read_ordered("masks.json");
  const auto templates = read_ordered("templates.json");
  const auto words = tokenizer();
  for (const auto& [name, source] : templates.items()) {
    const auto chat = chat_of(source.get<std::string>());
    const auto& cases = expected["masks"][name];
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto where = name + " " + std::to_string(i);
      const auto row = row_of(
          words, render_answers(chat, read_conversation(expected["conversations"][i], where)));
      EXPECT_EQ(OrderedJson(row.ids), cases[i]["ids"]) << where;
      std::vector<int> mask(row.is_target.begin(), row.is_target.end());
      EXPECT_EQ(OrderedJson(mask), cases[i]["mask"]) << where;
    }
  }
}

TEST_F(Answers, AreFoundByThePrefixOfATurn) {
  const auto rendered = render_answers(chat_of(kChatMl), two_turns());
  EXPECT_EQ(rendered.found, Found::kByPrefix);
  EXPECT_EQ(marked(rendered),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[[Hello! <|im_end|>\n]]"
            "<|im_start|>user\nSo?<|im_end|>\n<|im_start|>assistant\n[[Fine.<|im_end|>\n]]");
  // The line end behind what ends a turn is not learnt.
  const auto words = tokenizer();
  const auto row = row_of(words, rendered);
  std::string learnt;
  for (size_t i = 0; i < row.ids.size(); ++i) {
    if (row.is_target[i]) learnt += words.decode({&row.ids[i], 1}, false);
  }
  EXPECT_EQ(learnt, "Hello! <|im_end|>Fine.<|im_end|>");
  EXPECT_EQ(shown(words, row),
            "<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n[[Hello! <|im_end|>]]"
            "\\n<|im_start|>user\\nSo?<|im_end|>\\n<|im_start|>assistant\\n"
            "[[Fine.<|im_end|>]]\\n");
}

TEST_F(Answers, AreFoundByAPlaceholderWhereTurnsChangeLater) {
  const auto rendered = render_answers(chat_of(kThinks), two_turns());
  EXPECT_EQ(rendered.found, Found::kByPlaceholder);
  EXPECT_EQ(marked(rendered),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[[Hello!<|im_end|>\n]]"
            "<|im_start|>user\nSo?<|im_end|>\n<|im_start|>assistant\n"
            "[[<think></think>Fine.<|im_end|>\n]]");
}

TEST_F(Answers, AreTheLastAloneWhereNothingShowsOthers) {
  // Every answer is written twice, so no placeholder stands for it, and the earlier in capitals.
  const auto chat = chat_of(
      "{% for m in messages %}{{ m.role }}:{{ m.content }}{% if m.role == 'assistant' and not "
      "loop.last %}{{ m.content | upper }}{% endif %};{% endfor %}"
      "{% if add_generation_prompt %}assistant:{% endif %}");
  const auto rendered = render_answers(chat, two_turns());
  EXPECT_EQ(rendered.found, Found::kLastOnly);
  EXPECT_EQ(marked(rendered), "user:Hi;assistant:Hello! HELLO! ;user:So?;assistant:[[Fine.;]]");
}

TEST_F(Answers, LeaveOutPromptsAndConversationsWithoutAny) {
  const auto chat = chat_of(kChatMl);
  const auto split = conversation(R"({"prompt": [{"role": "user", "content": "Hi"},
      {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "So?"}],
      "completion": [{"role": "assistant", "content": "Fine."}]})");
  EXPECT_EQ(marked(render_answers(chat, split)),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n"
            "<|im_start|>user\nSo?<|im_end|>\n<|im_start|>assistant\n[[Fine.<|im_end|>\n]]");
  const auto question = conversation(R"({"messages": [{"role": "user", "content": "Hi"}]})");
  const auto rendered = render_answers(chat, question);
  EXPECT_EQ(rendered.found, Found::kNowhere);
  EXPECT_TRUE(rendered.answers.empty());
}

TEST_F(Answers, PlainTextsTrainOnTheCompletionAndItsEnd) {
  const auto words = tokenizer();
  const auto row = row_of_text(words, conversation(R"({"prompt": "2 + 2 =", "completion": " 4"})"));
  EXPECT_EQ(shown(words, row), "2 + 2 =[[ 4<|im_end|>]]");
}

TEST_F(Answers, KeepTheOrderOfKeysAndDropWhatIsNull) {
  const auto chat = chat_of("{{ messages[0] | tojson }}{{ tools | tojson }}{{ mood }}");
  const auto row = conversation(
      R"({"messages": [{"role": "user", "z": 1, "content": null, "a": 2}],
          "tools": "[{\"type\": \"function\", \"b\": 1, \"a\": null}]",
          "chat_template_kwargs": {"mood": "good"}})");
  EXPECT_EQ(chat.render(row.dialogue, 1, false).text,
            R"({"role": "user", "z": 1, "a": 2}[{"type": "function", "b": 1, "a": null}]good)");
}

// Columns of tables are of one type each.
TEST_F(Answers, ReadMessageListsInJsonTexts) {
  const auto row = conversation(
      R"({"prompt": "[{\"role\": \"user\", \"content\": \"Hi\"}]",
          "completion": "[{\"role\": \"assistant\", \"content\": \"Yes\"}]"})");
  EXPECT_FALSE(row.is_text());
  EXPECT_EQ(row.num_prompt, 1u);
  EXPECT_EQ(marked(render_answers(chat_of(kChatMl), row)),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[[Yes<|im_end|>\n]]");
  const auto whole = conversation(R"({"messages": "[{\"role\": \"user\", \"content\": \"Hi\"}]"})");
  EXPECT_EQ(whole.dialogue.messages[0]["content"], "Hi");
  // A text stays one.
  const auto text = conversation(
      R"({"prompt": "As JSON:", "completion": "[{\"role\": \"user\", \"content\": \"Hi\"}]"})");
  EXPECT_TRUE(text.is_text());
  EXPECT_EQ(text.completion, R"([{"role": "user", "content": "Hi"}])");
  EXPECT_TRUE(conversation(R"({"prompt": "[1]", "completion": "[2]"})").is_text());
}

TEST_F(Answers, HaveTheirOwnTemplateForTools) {
  write_file(folder_ / "tokenizer_config.json", R"({"chat_template": [
      {"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]})");
  const auto chat = ChatTemplate::find(folder_);
  ASSERT_TRUE(chat);
  auto dialogue = two_turns().dialogue;
  EXPECT_EQ(chat->render(dialogue, 1, false).text, "plain");
  dialogue.tools = OrderedJson::array({OrderedJson::object()});
  EXPECT_EQ(chat->render(dialogue, 1, false).text, "tools");
}

TEST_F(Answers, HaveTheDayThatIsSet) {
  auto chat = chat_of("{{ strftime_now('%d %b %Y') }}");
  EXPECT_TRUE(chat.asks_for_date());
  EXPECT_THROW(chat.set_date("yesterday"), UsageError);
  chat.set_date("2026-03-09");
  EXPECT_EQ(chat.render(two_turns().dialogue, 1, false).text, "09 Mar 2026");
}

TEST_F(Answers, NameTheRowThatIsNoConversation) {
  for (const char* row :
       {"[]", "{}", R"({"messages": []})", R"({"messages": [{"content": "x"}]})",
        R"({"messages": "no json"})", R"({"prompt": "x"})", R"({"prompt": "x", "completion": ""})",
        R"({"prompt": [], "completion": "x"})",
        R"({"messages": [{"role": "user"}], "tools": 1})"}) {
    try {
      conversation(row);
      ADD_FAILURE() << row;
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find("a row"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace convoy::chat
