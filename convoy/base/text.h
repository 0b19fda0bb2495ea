#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace convoy {

/// Returns the candidate that was most likely meant by `word`, or "" when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// ", did you mean 'x'?" or "" when nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

std::string human_bytes(double bytes);  ///< "1.5 GiB"
std::string human_bytes(std::integral auto bytes) {
  return human_bytes(static_cast<double>(bytes));
}
std::string human_seconds(double seconds);  ///< "1 min 20 s", "2 h 03 min", "0.25 s"
std::string human_count(int64_t count);     ///< "1,234,567"
std::string signed_percent(double part);    ///< "+3 %" of 0.03; never "-0 %"
std::string human_rate(double rate);        ///< "1234", below 100 with three digits: "5.25"

/// "1 rank", "2 ranks".
std::string plural(int64_t count, std::string_view what);

std::vector<std::string> split(std::string_view text, char separator);
std::string trim(std::string_view text);
std::string first_line(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");

/// Returns the number of characters of UTF-8 text, as a terminal counts them (wide scripts aside).
size_t display_width(std::string_view text);

/// Returns the text in lines of at most `width` columns, broken at spaces, at two neighbouring ones
/// where there are any; lines after the first begin with `indent` spaces. A word that is longer
/// than a line stays whole.
std::string wrap(std::string_view text, size_t indent, size_t width = 120);

/// Ascending numbers in short: "0, 2-5" for 0 2 3 4 5.
std::string compact_numbers(const std::vector<int>& numbers, std::string_view separator = ", ");

/// Returns `text` as a basic string of TOML, in double quotes.
std::string toml_text(std::string_view text);

/// Returns the bytes of the UTF-8 character (RFC 3629) at the front; 0 when it is broken.
size_t utf8_length(std::string_view text);
/// Whether the bytes are well-formed UTF-8.
bool is_utf8(std::string_view bytes);
/// Text as a terminal may be shown it: control characters, line ends included, and broken UTF-8
/// become \xNN.
std::string printable(std::string_view text);
/// Returns printable() text, but keeps line ends and tabs.
std::string printable_lines(std::string_view text);

inline constexpr const char* kBlanked = "***";
/// Returns the text with each access token of Hugging Face's in it (hf_...) blanked.
std::string without_tokens(std::string_view text);

/// Parses the whole text as a number; false when it is anything else.
bool parse_number(std::string_view text, int64_t& out);
bool parse_number(std::string_view text, double& out);

/// Parses true, True, 1, yes, on and their opposites; returns false when the text is anything else.
bool parse_bool(std::string_view text, bool& out);

}  // namespace convoy
