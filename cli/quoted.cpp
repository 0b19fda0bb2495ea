#include "cli/quoted.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace convoy::cli {

std::string quoted(std::string text) {
  for (size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) {
    text.replace(at, 1, "'\\''");
  }
  return "'" + text + "'";
}

std::string shell_word(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_./-+=:,@%").find(c) != std::string_view::npos;
  });
  return plain && !text.empty() ? text : quoted(text);
}

}  // namespace convoy::cli
