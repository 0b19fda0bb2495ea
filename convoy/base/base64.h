#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace convoy {

/// Returns the 6 bits that a digit of base64 stands for, or -1.
constexpr int base64_digit(char digit) {
  constexpr auto kValues = [] {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::array<int8_t, 256> values{};
    values.fill(-1);
    for (size_t i = 0; i < kDigits.size(); ++i) {
      values[static_cast<unsigned char>(kDigits[i])] = static_cast<int8_t>(i);
    }
    return values;
  }();
  return kValues[static_cast<unsigned char>(digit)];
}

/// Returns the bytes that a text holds as base64, with or without "=" at its end; none for another
/// text.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace convoy
