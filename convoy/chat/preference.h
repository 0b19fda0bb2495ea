#pragma once

#include <string>
#include <vector>

#include "convoy/chat/conversation.h"
#include "convoy/chat/row.h"

// Pairs of answers to one prompt, as TRL has them: the answer that was chosen and the one that was
// rejected.
namespace convoy::chat {

/// Two conversations that begin with the same prompt: both of texts, or both of messages.
struct Preference {
  Conversation chosen, rejected;
};

/// Columns and keys that read_preference() looks at.
const std::vector<std::string>& preference_keys();

/// Reads a row: `prompt`, `chosen` and `rejected`, all texts or all lists of messages, and where
/// given `tools` and `chat_template_kwargs`. Texts are lists of messages where both answers are
/// listed_messages(). Without a prompt, and where it is a text beside
/// messages, the prompt is how both answers begin; messages that begin in no common way answer the
/// prompt's text. Throws FileError that begins with `where`, also where both answers are equal.
Preference read_preference(OrderedJson row, const std::string& where);

/// Tokens of both answers behind their prompt; the answers' are the targets.
struct PreferenceRows {
  Row chosen, rejected;
  /// Last tokens of the prompt where it is tokenized alone that merge with the answer's first ones
  /// otherwise; none counts.
  std::vector<int32_t> lost;
};

/// Returns the tokens as TRL has them: an answer begins where the tokens of prompt and answer part
/// from those of the prompt alone, at the same place in both. Texts end with the tokenizer's end of
/// texts. `chat`: null where there is no template. Throws UsageError where a template is missing,
/// or raises.
PreferenceRows rows_of(const tokenizers::Tokenizer& tokenizer, const ChatTemplate* chat,
                       const Preference& preference);

}  // namespace convoy::chat
