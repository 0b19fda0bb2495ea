#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "convoy/tokenizers/tokenizer.h"
#include "convoy/tokenizers/tokenizer_parts.h"

namespace convoy::tokenizers {

/// Appends the ids of a text and the bytes that each stands for; see Tokenizer.
void encode_with_spans(const TokenizerParts& parts, std::string_view text,
                       std::vector<int32_t>& ids, std::vector<TokenSpan>& spans);

/// Throws UsageError where encode_with_spans() is not supported; see Tokenizer.
void check_tells_spans(const TokenizerParts& parts);

}  // namespace convoy::tokenizers
