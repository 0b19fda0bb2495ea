#include "convoy/chat/chat_template.h"

#include <ctime>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"

namespace convoy::chat {
namespace fs = std::filesystem;

namespace {

constexpr const char* kSettings = "tokenizer_config.json";
constexpr const char* kSpecialTokens = "special_tokens_map.json";
constexpr const char* kTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                   "pad_token", "cls_token", "mask_token"};

Json settings_of(const fs::path& folder, const char* name) {
  std::error_code error;
  if (folder.empty() || !fs::is_regular_file(folder / name, error)) return Json::object();
  const auto path = (folder / name).string();
  auto json = parse_json(read_file(path), path);
  if (!json.is_object()) fail<FileError>("chat", "{} is no object", path);
  return json;
}

std::string content_of(const Json& token) {
  return token.is_object()   ? text_of(token, "content")
         : token.is_string() ? token.get<std::string>()
                             : "";
}

/// Names and sources of the templates that the settings hold.
struct Sources {
  std::string usual, tool_use, where;
};

Sources sources_in(const Json& settings, const std::string& where) {
  Sources out{.where = where};
  const auto found = settings.find("chat_template");
  if (found == settings.end() || found->is_null()) return out;
  if (found->is_string()) {
    out.usual = found->get<std::string>();
    return out;
  }
  for (const auto& each : found->is_array() ? *found : Json::array()) {
    const auto name = text_of(each, "name");
    if (name == "default") out.usual = text_of(each, "template");
    if (name == "tool_use") out.tool_use = text_of(each, "template");
  }
  if (out.usual.empty()) {
    fail<FileError>("chat",
                    "{}: chat_template has no template 'default'; expected a text, or a list of "
                    "templates with one of that name; try --chat_template FILE",
                    where);
  }
  return out;
}

}  // namespace

std::optional<ChatTemplate> ChatTemplate::find(const fs::path& folder, const fs::path& file) {
  const auto settings = settings_of(folder, kSettings);
  std::error_code error;
  const auto beside = folder / kChatTemplate;
  Sources sources;
  if (!file.empty()) {
    sources = {read_regular_file(file), "", file.string()};
  } else if (!folder.empty() && fs::is_regular_file(beside, error)) {
    sources = {read_regular_file(beside), "", beside.string()};
  } else {
    sources = sources_in(settings, (folder / kSettings).string());
  }
  if (sources.usual.empty()) return std::nullopt;
  ChatTemplate out;
  if (sources.where == file || sources.where == beside) out.file_ = sources.where;
  out.usual_.emplace(sources.usual, sources.where);
  if (!sources.tool_use.empty()) out.tool_use_.emplace(sources.tool_use, sources.where);
  out.asks_for_date_ = (sources.usual + sources.tool_use).find("strftime_now") != std::string::npos;
  for (const auto& json : {settings_of(folder, kSpecialTokens), settings}) {
    for (const char* token : kTokens) {
      const auto found = json.find(token);
      if (found == json.end()) continue;
      if (const auto content = content_of(*found); !content.empty()) {
        out.special_tokens_[token] = content;
      }
    }
  }
  out.identity_ = sources.usual + sources.tool_use + out.special_tokens_.dump();
  return out;
}

void ChatTemplate::set_date(const std::string& date) {
  std::tm day{};
  const char* end = ::strptime(date.c_str(), "%Y-%m-%d", &day);
  if (end == nullptr || *end != '\0') {
    fail<UsageError>("chat", "template_date = '{}' is no day; expected one such as 2026-03-09",
                     date);
  }
  date_ = day;
  identity_ += date;
}

jinja::Rendering ChatTemplate::render(const Dialogue& dialogue, size_t count,
                                      bool add_generation_prompt) const {
  OrderedJson variables = special_tokens_;
  for (const auto& [key, value] : dialogue.arguments.items()) variables[key] = value;
  auto messages = OrderedJson::array();
  for (size_t i = 0; i < count; ++i) messages.push_back(dialogue.messages[i]);
  variables["messages"] = std::move(messages);
  variables["tools"] = dialogue.tools;
  variables["documents"] = nullptr;
  variables["add_generation_prompt"] = add_generation_prompt;
  return of(!dialogue.tools.is_null()).render(variables, {.now = date_});
}

}  // namespace convoy::chat
