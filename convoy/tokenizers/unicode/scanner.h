#pragma once

#include <cstddef>
#include <string_view>

namespace convoy::tokenizers {

/// Returns the end of the piece that begins at `at`. Every character belongs to a piece.
using Scanner = size_t (*)(std::string_view text, size_t at);

extern const std::string_view kGpt2Pattern;

/// Returns the hand-written scanner that cuts as this regular expression does, or null: GPT-2's,
/// Llama 3's, and Qwen 2's, which is Llama 3's with single digits.
Scanner find_scanner(std::string_view pattern);

}  // namespace convoy::tokenizers
