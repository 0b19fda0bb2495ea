#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "convoy/jinja/template.h"

namespace convoy::chat {

using jinja::OrderedJson;

/// File of a template beside a model.
inline constexpr const char* kChatTemplate = "chat_template.jinja";

/// Messages, with what else a template is given.
struct Dialogue {
  OrderedJson messages = OrderedJson::array();
  OrderedJson tools = nullptr;                    ///< null = none
  OrderedJson arguments = OrderedJson::object();  ///< further variables
};

/// Chat template of a model with the special tokens that it is given, as transformers'
/// apply_chat_template uses them.
class ChatTemplate {
 public:
  /// Returns the template in `file`, else in the folder of a model: chat_template.jinja, else
  /// chat_template of tokenizer_config.json. Nothing where there is none. Throws FileError for one
  /// that is broken or not supported.
  static std::optional<ChatTemplate> find(const std::filesystem::path& folder,
                                          const std::filesystem::path& file = {});

  /// Sets the day that strftime_now() has, as "2026-03-09". Throws UsageError for another text.
  void set_date(const std::string& date);
  bool asks_for_date() const { return asks_for_date_; }

  /// Whether {% generation %} marks the answers of a conversation, with tools or without.
  bool marks_answers(bool tools) const { return of(tools).marks_answers(); }

  /// Text of the first `count` messages. Throws UsageError where the template raises.
  jinja::Rendering render(const Dialogue& dialogue, size_t count, bool add_generation_prompt) const;

  /// File that holds the template alone; "" = it is in tokenizer_config.json.
  const std::filesystem::path& file() const { return file_; }

  /// Text that differs between templates that may render otherwise.
  const std::string& identity() const { return identity_; }

 private:
  const jinja::Template& of(bool tools) const { return tools && tool_use_ ? *tool_use_ : *usual_; }

  std::optional<jinja::Template> usual_, tool_use_;
  OrderedJson special_tokens_ = OrderedJson::object();
  std::optional<std::tm> date_;
  bool asks_for_date_ = false;
  std::filesystem::path file_;
  std::string identity_;
};

}  // namespace convoy::chat
