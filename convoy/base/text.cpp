#include "convoy/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace convoy {

namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

template <class T>
bool parse_whole(std::string_view text, T& out) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return false;
  out = value;
  return true;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  // At least one letter of a short word must match: "lr" does not suggest "dir".
  size_t best_distance =
      std::min(std::max<size_t>(2, word.size() / 3) + 1, std::max<size_t>(word.size(), 1));
  for (const auto& candidate : candidates) {
    size_t distance = edit_distance(word, candidate);
    if (word.size() >= 4 && candidate.find(word) != std::string::npos) {
      distance = std::min<size_t>(distance, 2);
    }
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  auto best = nearest(word, candidates);
  return best.empty() ? "" : fmt::format(", did you mean '{}'?", best);
}

std::string human_bytes(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  while (std::abs(bytes) >= 1024 && unit < 5) {
    bytes /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{:.{}f} {}", bytes, std::abs(bytes) < 10 ? 2 : 1, units[unit]);
}

std::string human_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 10) return fmt::format("{:.2f} s", seconds);
  auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {:02} h", whole / 86400, whole / 3600 % 24);
}

std::string human_rate(double rate) {
  if (!(std::abs(rate) < 99.95)) return fmt::format("{:.0f}", rate);
  return fmt::format("{:.{}f}", rate, std::abs(rate) < 9.995 ? 2 : 1);
}

std::string signed_percent(double part) {
  constexpr double kPercent = 100;
  return fmt::format("{:+.0f} %", std::round(kPercent * part) + 0.0);
}

std::string human_count(int64_t count) {
  auto digits = fmt::format("{}", count < 0 ? -count : count);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return (count < 0 ? "-" : "") + digits;
}

std::string plural(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string trim(std::string_view text) {
  const char* blank = " \t\r\n";
  auto begin = text.find_first_not_of(blank);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(blank) - begin + 1));
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string wrap(std::string_view text, size_t indent, size_t width) {
  std::string out;
  for (size_t room = width; display_width(text) > room; room = width - indent) {
    size_t cut = std::string_view::npos;
    for (const std::string_view gap : {"  ", " "}) {
      for (size_t at = text.find(gap); at != std::string_view::npos; at = text.find(gap, at + 1)) {
        if (display_width(text.substr(0, at)) > room) break;
        if (display_width(text.substr(0, at)) > room / 2) cut = at;
      }
      if (cut != std::string_view::npos) break;
    }
    if (cut == std::string_view::npos) cut = text.find(' ', room);  // a long word
    if (cut == std::string_view::npos) break;
    out += text.substr(0, text.find_last_not_of(' ', cut) + 1);
    out += "\n" + std::string(indent, ' ');
    text.remove_prefix(std::min(text.find_first_not_of(' ', cut), text.size()));
  }
  return out + std::string(text);
}

std::string compact_numbers(const std::vector<int>& numbers, std::string_view separator) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    parts.push_back(last == i ? fmt::format("{}", numbers[i])
                              : fmt::format("{}-{}", numbers[i], numbers[last]));
    i = last + 1;
  }
  return join(parts, separator);
}

std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (code < 0x20 || code == 0x7f) {
      out += fmt::format("\\u{:04X}", code);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (length == 0 || first > 0xF4 || text.size() < length) return 0;
  char32_t code = first & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte & 0x3F);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return overlong || surrogate || code > 0x10FFFF ? 0 : length;
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t length = utf8_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    // Control characters U+0080 to U+009F (the second block) take two bytes.
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

std::string printable_lines(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of("\n\t", at), text.size());
    out += printable(text.substr(at, end - at)) + std::string(text.substr(end, 1));
    at = end + 1;
  }
  return out;
}

std::string without_tokens(std::string_view text) {
  constexpr std::string_view kPrefix = "hf_";
  constexpr size_t kShortest = 8;  // of names such as hf_model
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool begins = text.substr(at).starts_with(kPrefix) &&
                        (at == 0 || !(is_word(text[at - 1]) || text[at - 1] == '_'));
    size_t end = at + kPrefix.size();
    while (begins && end < text.size() && is_word(text[end])) ++end;
    const bool token = begins && end - at >= kPrefix.size() + kShortest;
    if (token) {
      out += kBlanked;
      at = end;
    } else {
      out += text[at++];
    }
  }
  return out;
}

bool parse_number(std::string_view text, int64_t& out) {
  return parse_whole(text, out);
}
bool parse_number(std::string_view text, double& out) {
  return parse_whole(text, out);
}

bool parse_bool(std::string_view text, bool& out) {
  const auto is = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(), [&](const char* word) { return text == word; });
  };
  out = is({"true", "True", "1", "yes", "on"});
  return out || is({"false", "False", "0", "no", "off"});
}

}  // namespace convoy
