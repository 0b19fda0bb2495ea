#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "convoy/tokenizers/tokenizer.h"

namespace convoy::tasks {

/// Id of the token for text that the tokenizer does not know; none where no text is unknown to it.
std::optional<int32_t> unknown_id(const tokenizers::Tokenizer& tokenizer);
/// SentencePiece's blank in front of a word, if it has one.
std::optional<int32_t> blank_id(const tokenizers::Tokenizer& tokenizer);

/// Whether a text's `ids` are the tokenizer's unknown token and else only `apart` and blanks.
bool is_unknown(const tokenizers::Tokenizer& tokenizer, std::span<const int32_t> ids,
                std::initializer_list<int32_t> apart);

/// Throws UsageError where a text is_unknown(). `name`: the text's, such as "text 2 of FILE".
void check_known(const tokenizers::Tokenizer& tokenizer, std::span<const int32_t> ids,
                 std::initializer_list<int32_t> apart, const std::string& name,
                 const std::string& text);

}  // namespace convoy::tasks
