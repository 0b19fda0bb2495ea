#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/chat/answers.h"
#include "convoy/tokenizers/tokenizer.h"

namespace convoy::chat {

/// Tokens of a conversation.
struct Row {
  std::vector<int32_t> ids;
  std::vector<bool> is_target;  ///< of each id: whether the model learns to say it

  int64_t num_targets() const;
};

/// Returns the tokens of a rendered conversation. Targets are those that stand for a part of an
/// answer; of what ends a turn blanks behind a special token are none. No special tokens are added:
/// a template writes its own.
Row row_of(const tokenizers::Tokenizer& tokenizer, const Rendered& rendered);

/// Returns the tokens of a text and what follows on it, between the special tokens that begin and
/// end texts of the tokenizer: the completion and the end are targets.
Row row_of_text(const tokenizers::Tokenizer& tokenizer, const Conversation& conversation);

/// Returns the row as people read it, with [[ and ]] around targets; long stretches are shortened.
std::string shown(const tokenizers::Tokenizer& tokenizer, const Row& row);

}  // namespace convoy::chat
