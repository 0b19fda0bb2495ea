#pragma once

#include <optional>
#include <string>
#include <string_view>

// GPT-2's alphabet: each byte as a printable character, itself or one from U+0100 on.
namespace convoy::tokenizers {

/// Character that stands for a byte.
char32_t character_of_byte(unsigned char byte);
/// Returns the bytes that characters of that alphabet stand for; nothing when one is not in it.
std::optional<std::string> bytes_of(std::string_view characters);

}  // namespace convoy::tokenizers
