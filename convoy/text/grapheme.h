#pragma once

#include <cstddef>
#include <string_view>

namespace convoy::text {

/// Where what a reader sees as one character ends (Unicode 17, UAX 29: extended grapheme clusters);
/// it begins at `begin` of well-formed UTF-8. Right for all below 6 bytes, which is what
/// SentencePiece's maps ask: flags, conjuncts of Indic scripts and joined emoji may come in parts.
size_t grapheme_end(std::string_view text, size_t begin);

}  // namespace convoy::text
