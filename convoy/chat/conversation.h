#pragma once

#include <string>
#include <vector>

#include "convoy/chat/chat_template.h"

namespace convoy::chat {

/// Row of a file of conversations.
struct Conversation {
  Dialogue dialogue;
  /// Messages of the prompt, which are not learnt.
  size_t num_prompt = 0;
  /// Text that goes to the model as it is, and the text that follows; in place of messages.
  std::string prompt, completion;

  bool is_text() const { return dialogue.messages.empty(); }
};

/// Columns and keys that read_conversation() looks at.
const std::vector<std::string>& conversation_keys();

/// Reads a row: `messages`, or `prompt` with `completion` (both texts, or both lists of messages),
/// and where given `tools` and `chat_template_kwargs`. Texts may hold `messages`, `tools` and
/// `chat_template_kwargs` as JSON; `prompt` and `completion` where both are listed_messages().
/// Messages become what transformers hands to
/// templates: keys without a value are left out, reasoning has the names that templates use. Throws
/// FileError that begins with `where`.
Conversation read_conversation(OrderedJson row, const std::string& where);

/// List of messages that a text holds as JSON, as columns of tables do; any other value unchanged.
OrderedJson listed_messages(const OrderedJson& value);

/// A dialogue without messages, but with a row's `tools` and `chat_template_kwargs`, which are
/// taken out of it. Throws FileError that begins with `where`.
Dialogue take_settings(OrderedJson& row, const std::string& where);

/// Messages as transformers hands them to templates; see above.
OrderedJson plain_messages(const OrderedJson& messages, const std::string& where);

}  // namespace convoy::chat
