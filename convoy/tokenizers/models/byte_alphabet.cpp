#include "convoy/tokenizers/models/byte_alphabet.h"

#include <array>

#include "convoy/tokenizers/unicode/unicode.h"

namespace convoy::tokenizers {
namespace {

constexpr size_t kAlphabetEnd = 0x144;

struct Alphabet {
  std::array<char32_t, 256> characters{};
  std::array<int, kAlphabetEnd> bytes{};

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
      characters[byte] = printable ? static_cast<char32_t>(byte) : next++;
      bytes[characters[byte]] = byte;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet kAlphabet;
  return kAlphabet;
}

}  // namespace

char32_t character_of_byte(unsigned char byte) {
  return alphabet().characters[byte];
}

std::optional<std::string> bytes_of(std::string_view characters) {
  std::string bytes;
  for (size_t at = 0; at < characters.size();) {
    const char32_t c = next_character(characters, at);
    if (c >= kAlphabetEnd || alphabet().bytes[c] < 0) return std::nullopt;
    bytes += static_cast<char>(alphabet().bytes[c]);
  }
  return bytes;
}

}  // namespace convoy::tokenizers
