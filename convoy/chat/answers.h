#pragma once

#include <string>
#include <vector>

#include "convoy/chat/conversation.h"
#include "convoy/jinja/template.h"

namespace convoy::chat {

/// Way in which the answers were found in the text of a conversation.
enum class Found {
  kByTags,         ///< {% generation %} marks them
  kByPrefix,       ///< the text up to a turn is how the whole text begins
  kByPlaceholder,  ///< a text in place of the answer shows where it stands
  kLastOnly,       ///< neither helps for an earlier one: the last answer alone
  kNowhere,        ///< no answer, or none whose place can be told
};

/// Text of a conversation and the parts that a model shall learn to say: answers of the assistant,
/// with what ends their turns.
struct Rendered {
  std::string text;
  std::vector<jinja::ByteRange> answers;  ///< ascending, apart
  Found found = Found::kNowhere;
};

/// Renders a conversation and finds its answers, those of the prompt aside. Throws UsageError where
/// the template raises.
Rendered render_answers(const ChatTemplate& chat, const Conversation& conversation);

}  // namespace convoy::chat
