#include "convoy/chat/preference.h"

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::chat {

namespace {

OrderedJson taken(OrderedJson& row, const char* key) {
  const auto found = row.find(key);
  return found == row.end() ? OrderedJson() : std::move(*found);
}

bool is_text_or_messages(const OrderedJson& value) {
  return value.is_string() || (value.is_array() && !value.empty());
}

/// Words for a value that is neither a text nor messages.
std::string kind_of(const OrderedJson& value) {
  if (value.is_null()) return "is missing";
  if (value.is_array()) return "is an empty list";
  return fmt::format("is {} {}", value.is_object() ? "an" : "a", value.type_name());
}

/// Number of leading messages or bytes that both share, fewer than either has.
template <class Values>
size_t common_begin(const Values& a, const Values& b) {
  const size_t most = std::min(a.size(), b.size()) - 1;
  size_t count = 0;
  while (count < most && a[count] == b[count]) ++count;
  return count;
}

/// Length of the text that both answers begin with, as TRL's extract_prompt finds it: without a
/// blank at the end, and of whole characters.
size_t common_text(const std::string& a, const std::string& b) {
  size_t end = common_begin(a, b);
  const auto is_inside = [&](char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; };
  while (end > 0 && (is_inside(a[end]) || is_inside(b[end]))) --end;
  return end > 0 && a[end - 1] == ' ' ? end - 1 : end;
}

Preference of_texts(OrderedJson prompt, const std::string& chosen, const std::string& rejected,
                    const std::string& where) {
  if (chosen.empty() || rejected.empty()) {
    fail<FileError>("chat", "{} has an empty {}", where, chosen.empty() ? "chosen" : "rejected");
  }
  size_t begin = 0;
  if (!prompt.is_string()) {
    begin = common_text(chosen, rejected);
    prompt = chosen.substr(0, begin);
  }
  const auto one = [&](const std::string& answer) {
    Conversation out;
    out.prompt = prompt.get<std::string>();
    out.completion = answer.substr(begin);
    return out;
  };
  return {one(chosen), one(rejected)};
}

/// Preference of lists of messages. The answers begin with the prompt where `prompt` is no list.
Preference of_messages(OrderedJson prompt, const OrderedJson& chosen, const OrderedJson& rejected,
                       const std::string& where) {
  size_t begin = 0;
  if (!prompt.is_array()) {
    begin = common_begin(chosen, rejected);
    auto messages = OrderedJson::array();
    for (size_t i = 0; i < begin; ++i) messages.push_back(chosen[i]);
    if (begin == 0 && prompt.is_string()) {
      messages.push_back(OrderedJson{{"role", "user"}, {"content", prompt}});
    }
    prompt = std::move(messages);
  }
  const auto one = [&](const OrderedJson& answer, const char* key) {
    auto all = prompt;
    for (size_t i = begin; i < answer.size(); ++i) all.push_back(answer[i]);
    Conversation out;
    out.num_prompt = prompt.size();
    out.dialogue.messages = plain_messages(all, fmt::format("{}: prompt with {}", where, key));
    return out;
  };
  return {one(chosen, "chosen"), one(rejected, "rejected")};
}

size_t common_prefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const auto most = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + most, b.begin()).first -
                             a.begin());
}

/// Ids of a text of a conversation, or of `count` of its messages.
class Encoder {
 public:
  Encoder(const tokenizers::Tokenizer& tokenizer, const ChatTemplate* chat)
      : tokenizer_(tokenizer), chat_(chat) {
    if (const auto& eos = tokenizer.special_ids().eos) end_ = tokenizer.token(*eos);
  }

  std::vector<int32_t> prompt(const Conversation& conversation) const {
    if (conversation.is_text()) return ids(conversation.prompt, /*special=*/true);
    if (conversation.num_prompt == 0) return {};
    return ids(render(conversation.dialogue, conversation.num_prompt, /*prompts=*/true), false);
  }

  std::vector<int32_t> whole(const Conversation& conversation) const {
    if (conversation.is_text()) {
      auto answer = conversation.completion;
      if (!answer.ends_with(end_)) answer += end_;
      return ids(conversation.prompt + answer, /*special=*/true);
    }
    const auto& dialogue = conversation.dialogue;
    return ids(render(dialogue, dialogue.messages.size(), /*prompts=*/false), false);
  }

 private:
  std::string render(const Dialogue& dialogue, size_t count, bool prompts) const {
    if (chat_ != nullptr) return chat_->render(dialogue, count, prompts).text;
    fail<UsageError>("chat",
                     "the pair is of messages, and the model has no chat template for them; try "
                     "--chat_template FILE, or a model that chats");
  }

  std::vector<int32_t> ids(const std::string& text, bool special) const {
    std::vector<int32_t> out;
    tokenizer_.encode(text, out, special);
    return out;
  }

  const tokenizers::Tokenizer& tokenizer_;
  const ChatTemplate* chat_;
  std::string end_;  // of texts
};

Row row_from(std::vector<int32_t> ids, size_t prompt) {
  Row out;
  out.is_target.assign(ids.size(), true);
  // The first token is never a target, as no token precedes it.
  std::fill_n(out.is_target.begin(), std::min(ids.size(), std::max<size_t>(1, prompt)), false);
  out.ids = std::move(ids);
  return out;
}

}  // namespace

const std::vector<std::string>& preference_keys() {
  static const std::vector<std::string> kKeys{"prompt", "chosen", "rejected", "tools",
                                              "chat_template_kwargs"};
  return kKeys;
}

Preference read_preference(OrderedJson row, const std::string& where) {
  if (!row.is_object()) {
    fail<FileError>("chat", "{} is no object; expected one with chosen and rejected", where);
  }
  const auto settings = take_settings(row, where);
  auto prompt = taken(row, "prompt");
  auto chosen = taken(row, "chosen"), rejected = taken(row, "rejected");
  if (auto better = listed_messages(chosen), worse = listed_messages(rejected);
      better.is_array() && worse.is_array()) {
    chosen = std::move(better);
    rejected = std::move(worse);
    prompt = listed_messages(prompt);
  }
  for (const auto& [key, value] : {std::pair("chosen", &chosen), {"rejected", &rejected}}) {
    const bool is_read = is_text_or_messages(*value);
    if (is_read && value->type() == chosen.type()) continue;
    const auto what = is_read ? "is of another kind than chosen" : kind_of(*value);
    fail<FileError>("chat",
                    "{}: {} {}; expected chosen and rejected to be two texts, or two lists of "
                    "messages",
                    where, key, what);
  }
  if (!prompt.is_null() && !prompt.is_string() && !is_text_or_messages(prompt)) {
    fail<FileError>("chat", "{}: prompt {}; expected a text, or a list of messages", where,
                    kind_of(prompt));
  }
  if (chosen == rejected) {
    fail<FileError>("chat", "{}: chosen and rejected are the same, which tells no preference",
                    where);
  }
  if (prompt.is_array() && chosen.is_string()) {
    fail<FileError>("chat",
                    "{}: prompt is a list of messages, and chosen and rejected are texts; expected "
                    "all of one kind",
                    where);
  }
  auto out = chosen.is_string() ? of_texts(std::move(prompt), chosen.get<std::string>(),
                                           rejected.get<std::string>(), where)
                                : of_messages(std::move(prompt), chosen, rejected, where);
  for (auto* one : {&out.chosen, &out.rejected}) {
    one->dialogue.tools = settings.tools;
    one->dialogue.arguments = settings.arguments;
  }
  return out;
}

PreferenceRows rows_of(const tokenizers::Tokenizer& tokenizer, const ChatTemplate* chat,
                       const Preference& preference) {
  const Encoder encoder(tokenizer, chat);
  const auto prompt = encoder.prompt(preference.chosen);
  auto chosen = encoder.whole(preference.chosen), rejected = encoder.whole(preference.rejected);
  const auto begin = std::min(common_prefix(prompt, chosen), common_prefix(prompt, rejected));
  return {.chosen = row_from(std::move(chosen), begin),
          .rejected = row_from(std::move(rejected), begin),
          .lost = {prompt.begin() + static_cast<std::ptrdiff_t>(begin), prompt.end()}};
}

}  // namespace convoy::chat
