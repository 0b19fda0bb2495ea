#include "convoy/base/printable.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/text.h"

namespace convoy {

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    // Those of Unicode's second block are two bytes long.
    const bool second_block =
        length == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
    if (length == 0 || first < 0x20 || first == 0x7F) {
      out += fmt::format("\\x{:02x}", first);
    } else if (second_block) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[1]));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

}  // namespace convoy
