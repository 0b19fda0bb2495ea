#include "convoy/jinja/text_operations.h"

#include <algorithm>

#include "convoy/jinja/access.h"
#include "convoy/jinja/python_text.h"
#include "convoy/jinja/unicode.h"

namespace convoy::jinja {

namespace {

size_t front_of(std::string_view text, const std::string* characters) {
  if (characters == nullptr) return space_in_front(text);
  size_t at = 0;
  while (at < text.size()) {
    size_t behind = at;
    next_character(text, behind);
    if (find_bytes(*characters, text.substr(at, behind - at)) == std::string::npos) break;
    at = behind;
  }
  return at;
}

size_t back_of(std::string_view text, const std::string* characters) {
  if (characters == nullptr) return space_behind(text);
  size_t end = text.size();
  while (end > 0) {
    size_t at = end - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if (find_bytes(*characters, text.substr(at, end - at)) == std::string::npos) break;
    end = at;
  }
  return text.size() - end;
}

std::vector<std::string_view> split_at_space(std::string_view text, int64_t most, bool from_right) {
  std::vector<std::string_view> out;
  const auto within = [](std::string_view text, bool from_right) {
    // Bytes until the next white space, seen from one side.
    size_t at = from_right ? text.size() : 0;
    while (from_right ? at > 0 : at < text.size()) {
      size_t next = from_right ? at - 1 : at;
      while (from_right && next > 0 && (static_cast<unsigned char>(text[next]) & 0xC0) == 0x80)
        --next;
      size_t behind = next;
      if (is_space(next_character(text, behind))) break;
      at = from_right ? next : behind;
    }
    return from_right ? text.size() - at : at;
  };
  for (;;) {
    if (from_right)
      text.remove_suffix(space_behind(text));
    else
      text.remove_prefix(space_in_front(text));
    if (text.empty()) break;
    if (most == 0) {
      out.push_back(text);
      break;
    }
    const size_t length = within(text, from_right);
    out.push_back(from_right ? text.substr(text.size() - length) : text.substr(0, length));
    if (from_right)
      text.remove_suffix(length);
    else
      text.remove_prefix(length);
    --most;
  }
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

Value strip(Budget& budget, const Value& value, const std::string* characters, bool front,
            bool back) {
  const Text& text = *value.as_text();
  if (characters != nullptr) {
    budget.step(static_cast<int64_t>(text.bytes.size() / 64 * (characters->size() / 64)));
  }
  const size_t begin = front ? front_of(text.bytes, characters) : 0;
  const std::string_view rest = std::string_view(text.bytes).substr(begin);
  const size_t end = begin + rest.size() - (back ? back_of(rest, characters) : 0);
  if (begin == 0 && end == text.bytes.size()) return value;
  budget.bytes(end - begin);
  auto made = std::make_shared<Text>(Text{text.bytes.substr(begin, end - begin), text.safe, {}});
  for (const ByteRange& span : text.answers) {
    const ByteRange cut{std::clamp(span.begin, begin, end) - begin,
                        std::clamp(span.end, begin, end) - begin};
    if (cut.begin < cut.end) made->answers.push_back(cut);
  }
  return Value(TextPtr(std::move(made)));
}

std::vector<std::string_view> split_parts(std::string_view text, const std::string* separator,
                                          int64_t most, bool from_right) {
  if (separator == nullptr) return split_at_space(text, most, from_right);
  std::vector<std::string_view> out;
  while (most != 0) {
    const size_t at = from_right ? text.rfind(*separator) : find_bytes(text, *separator);
    if (at == std::string_view::npos) break;
    out.push_back(from_right ? text.substr(at + separator->size()) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at + separator->size());
    --most;
  }
  out.push_back(text);
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = next_character(text, at);
    if (!ends_line(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    out.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
  return out;
}

std::string replaced(Budget& budget, std::string_view text, std::string_view old,
                     std::string_view now, int64_t most) {
  std::string out;
  const auto put = [&](std::string_view bytes) {
    budget.bytes(bytes.size());
    out += bytes;
  };
  size_t done = 0;
  for (size_t at = 0; most != 0; --most) {
    const size_t found = find_bytes(text, old, at);
    if (found == std::string_view::npos) break;
    budget.step();
    put(text.substr(done, found - done));
    put(now);
    done = found + old.size();
    at = done;
    if (old.empty()) {  // between all characters
      if (at >= text.size()) break;
      next_character(text, at);
    }
  }
  put(text.substr(done));
  return out;
}

Value join(Budget& budget, const Value& separator, const std::vector<Value>& items, bool strict) {
  const bool safe = strict && separator.as_text()->safe;
  std::vector<Value> parts;
  for (const Value& item : items) {
    if (!parts.empty()) parts.push_back(separator);
    if (strict) need_text(item, "what join() takes");
    Value text = soft_text(budget, item);
    if (safe && !text.as_text()->safe)
      text = Value::text(escaped(budget, text.as_text()->bytes), true);
    parts.push_back(std::move(text));
  }
  return concatenated(budget, parts, safe);
}

Value concatenated(Budget& budget, const std::vector<Value>& texts, bool safe) {
  auto made = std::make_shared<Text>();
  made->safe = safe;
  for (const Value& value : texts) {
    const Text& text = *value.as_text();
    budget.bytes(text.bytes.size());
    for (const ByteRange& span : text.answers) {
      made->answers.push_back({made->bytes.size() + span.begin, made->bytes.size() + span.end});
    }
    made->bytes += text.bytes;
  }
  return Value(TextPtr(std::move(made)));
}

std::string escaped(Budget& budget, std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  budget.bytes(out.size());
  return out;
}

std::string padded(Budget& budget, std::string_view text, int64_t width, char align,
                   std::string_view fill, bool left_first) {
  const auto count = static_cast<int64_t>(count_characters(text));
  const int64_t more = std::max<int64_t>(width - count, 0);
  budget.bytes(static_cast<uint64_t>(more) + text.size());
  budget.bytes(static_cast<uint64_t>(more) * (fill.size() - 1));
  int64_t left = align == '>' ? more : 0;
  if (align == '^') left = more / 2 + (left_first ? more & width & 1 : 0);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (int64_t i = left; i < more; ++i) out += fill;
  return out;
}

}  // namespace convoy::jinja
