#include "convoy/chat/conversation.h"

#include <algorithm>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/json.h"

namespace convoy::chat {

namespace {

constexpr const char* kArguments = "chat_template_kwargs";

/// Returns the value, or the parsed JSON of a text in its place: tables have no columns of
/// arbitrary objects.
OrderedJson unpacked(OrderedJson value, const char* key, const std::string& where) {
  if (!value.is_string()) return value;
  const auto text = value.get<std::string>();
  if (text.empty()) return nullptr;
  parse_json(text, fmt::format("{}: {}", where, key));  // for its sentences
  return OrderedJson::parse(text);
}

OrderedJson take(OrderedJson& row, const char* key) {
  const auto found = row.find(key);
  return found == row.end() ? OrderedJson() : std::move(*found);
}

/// Copies the value of `reasoning_content`, `thinking` or `reasoning` to the first two keys, which
/// templates read.
OrderedJson with_reasoning(OrderedJson message) {
  const OrderedJson* said = nullptr;
  for (const char* key : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(key);
    if (said == nullptr && found != message.end()) said = &*found;
  }
  if (said == nullptr) return message;
  const OrderedJson reasoning = *said;
  OrderedJson out{{"thinking", reasoning}};
  for (const auto& [key, value] : message.items()) out[key] = value;
  out["reasoning_content"] = reasoning;
  return out;
}

}  // namespace

const std::vector<std::string>& conversation_keys() {
  static const std::vector<std::string> kKeys{"messages", "prompt", "completion", "tools",
                                              kArguments};
  return kKeys;
}

OrderedJson listed_messages(const OrderedJson& value) {
  if (!value.is_string()) return value;
  const auto& text = value.get_ref<const std::string&>();
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos || text[begin] != '[') return value;
  try {
    parse_json(text, "a text");  // it knows what is too deep
  } catch (const FileError&) {
    return value;
  }
  auto list = OrderedJson::parse(text);
  const bool is_messages =
      !list.empty() && std::all_of(list.begin(), list.end(), [](const OrderedJson& message) {
        return message.is_object() && message.contains("role") && message["role"].is_string();
      });
  return is_messages ? list : value;
}

OrderedJson plain_messages(const OrderedJson& messages, const std::string& where) {
  if (!messages.is_array() || messages.empty()) {
    fail<FileError>("chat",
                    "{} has no messages; expected a list, such as [{{\"role\": \"user\", "
                    "\"content\": \"...\"}}, ...]",
                    where);
  }
  auto out = OrderedJson::array();
  for (const auto& message : messages) {
    const bool has_role =
        message.is_object() && message.contains("role") && message["role"].is_string();
    if (!has_role) {
      fail<FileError>("chat",
                      "{}: message {} has no role; expected an object with role and content", where,
                      out.size() + 1);
    }
    auto kept = OrderedJson::object();
    for (const auto& [key, value] : message.items()) {
      if (!value.is_null()) kept[key] = value;
    }
    out.push_back(with_reasoning(std::move(kept)));
  }
  return out;
}

Dialogue take_settings(OrderedJson& row, const std::string& where) {
  Dialogue out;
  out.tools = unpacked(take(row, "tools"), "tools", where);
  if (out.tools.is_array() && out.tools.empty()) out.tools = nullptr;
  if (!out.tools.is_null() && !out.tools.is_array()) {
    fail<FileError>("chat", "{}: tools is a {}; expected a list of functions", where,
                    out.tools.type_name());
  }
  auto arguments = unpacked(take(row, kArguments), kArguments, where);
  if (!arguments.is_null() && !arguments.is_object()) {
    fail<FileError>("chat", "{}: {} is a {}; expected an object", where, kArguments,
                    arguments.type_name());
  }
  if (arguments.is_object()) out.arguments = std::move(arguments);
  return out;
}

Conversation read_conversation(OrderedJson row, const std::string& where) {
  if (!row.is_object()) {
    fail<FileError>("chat", "{} is no object; expected one with messages, or prompt and completion",
                    where);
  }
  Conversation out;
  out.dialogue = take_settings(row, where);
  auto prompt = take(row, "prompt"), completion = take(row, "completion");
  if (auto asked = listed_messages(prompt), said = listed_messages(completion);
      asked.is_array() && said.is_array()) {
    prompt = std::move(asked);
    completion = std::move(said);
  }
  if (prompt.is_string() && completion.is_string()) {
    out.prompt = prompt.get<std::string>();
    out.completion = completion.get<std::string>();
    if (out.completion.empty()) fail<FileError>("chat", "{} has an empty completion", where);
    return out;
  }
  auto messages = unpacked(take(row, "messages"), "messages", where);
  if (messages.is_null() && (!prompt.is_null() || !completion.is_null())) {
    if (!prompt.is_array() || !completion.is_array() || completion.empty()) {
      fail<FileError>(
          "chat",
          "{}: prompt and completion are {} and {}; expected two texts, or two lists of "
          "messages",
          where, prompt.type_name(), completion.type_name());
    }
    messages = prompt;
    out.num_prompt = prompt.size();
    for (const auto& message : completion) messages.push_back(message);
  }
  out.dialogue.messages = plain_messages(messages, where);
  return out;
}

}  // namespace convoy::chat
