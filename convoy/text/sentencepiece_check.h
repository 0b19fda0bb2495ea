#pragma once

#include <string>
#include <string_view>

namespace convoy::text {

/// Refuses a SentencePiece model that would make the library crash instead of reporting it. Throws
/// FileError.
void check_sentencepiece(std::string_view bytes, const std::string& where);

}  // namespace convoy::text
