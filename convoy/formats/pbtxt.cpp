#include "convoy/formats/pbtxt.h"

#include <algorithm>
#include <cctype>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::formats {

namespace {

constexpr int kMaxDepth = 64;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '+' ||
         c == '.';
}

std::string camel_case(std::string_view name) {
  std::string out;
  bool upper = false;
  for (const char c : name) {
    if (c == '_') {
      upper = !out.empty();
    } else {
      out.push_back(upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c);
      upper = false;
    }
  }
  return out;
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Json parse() {
    Json out = fields('\0', 0);
    skip_space();
    if (at_ < text_.size()) wrong(fmt::format("'{}' closes nothing", text_[at_]));
    return out;
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const {
    const auto before = text_.substr(0, std::min(at_, text_.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const auto newline = before.rfind('\n');
    const auto column = before.size() - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
    fail<FileError>("formats", "{}:{}:{}: {}", where_, line, column, what);
  }

  void skip_space() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool take(char wanted) {
    if (peek() != wanted || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }

  std::string_view word() {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  Json fields(char closing, int depth) {
    if (depth > kMaxDepth) wrong(fmt::format("messages lie in each other {} deep", depth));
    Json out = Json::object();
    while (peek() != closing && at_ < text_.size()) {
      const auto name = field_name();
      const bool colon = take(':');
      Json& values = out[name];
      if (take('[')) {
        while (!take(']')) {
          values.push_back(value(colon, depth));
          if (!take(',') && peek() != ']') wrong("expected , or ] in a list");
        }
      } else {
        values.push_back(value(colon, depth));
      }
      if (!take(';')) take(',');
    }
    return out;
  }

  std::string field_name() {
    if (take('[')) {  // an extension or the type of an Any
      const size_t end = text_.find(']', at_);
      if (end == std::string_view::npos) wrong("a [ is never closed");
      const auto name = trim(text_.substr(at_, end - at_));
      at_ = end + 1;
      return name;
    }
    const auto name = word();
    if (name.empty()) {
      wrong(at_ < text_.size() ? fmt::format("'{}' where a field's name was expected", text_[at_])
                               : "the text ends where a field's name was expected");
    }
    return camel_case(name);
  }

  Json value(bool after_colon, int depth) {
    const char next = peek();
    if (next == '{' || next == '<') {
      ++at_;
      const char closing = next == '{' ? '}' : '>';
      Json out = fields(closing, depth + 1);
      if (!take(closing)) wrong(fmt::format("the text ends before a '{}'", closing));
      return out;
    }
    if (!after_colon) wrong("expected : or { after a field's name");
    if (next == '"' || next == '\'') {
      std::string out;
      while (peek() == '"' || peek() == '\'') out += quoted();  // neighbours are one string
      if (!is_utf8(out)) wrong("a string is not UTF-8");
      return out;
    }
    const auto text = word();
    if (text.empty()) wrong("a value is missing");
    return scalar(std::string(text));
  }

  static Json scalar(const std::string& text) {
    int64_t whole = 0;
    double number = 0;
    if (text == "true" || text == "false") return text == "true";
    if (parse_number(text, whole)) return whole;
    const bool suffixed = (text.back() == 'f' || text.back() == 'F') && text != "inf";
    if (parse_number(suffixed ? text.substr(0, text.size() - 1) : text, number)) return number;
    return text;
  }

  std::string quoted() {
    const char quote = text_[at_++];
    std::string out;
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\n') wrong("a string runs over the end of its line");
      out.push_back(text_[at_] == '\\' ? escaped() : text_[at_]);
    }
    if (at_ >= text_.size()) wrong("a string is never closed");
    ++at_;
    return out;
  }

  /// Decodes the character behind a backslash; leaves at_ on its last digit.
  char escaped() {
    if (++at_ >= text_.size()) wrong("a string is never closed");
    const char c = text_[at_];
    constexpr std::string_view kLetters = "abfnrtv", kMeant = "\a\b\f\n\r\t\v";
    if (auto i = kLetters.find(c); i != std::string_view::npos) return kMeant[i];
    const bool hex = c == 'x' || c == 'X';
    const int base = hex ? 16 : 8;
    int code = 0;
    size_t digits = 0;
    const size_t first = at_ + (hex ? 1 : 0), most = hex ? 2 : 3;
    for (; digits < most && first + digits < text_.size(); ++digits) {
      const char digit = text_[first + digits];
      const int worth = std::isdigit(static_cast<unsigned char>(digit)) ? digit - '0'
                        : std::isxdigit(static_cast<unsigned char>(digit))
                            ? std::tolower(static_cast<unsigned char>(digit)) - 'a' + 10
                            : base;
      if (worth >= base) break;
      code = code * base + worth;
    }
    if (digits == 0) {
      if (hex) wrong("\\x without digits");
      return c;
    }
    at_ = first + digits - 1;
    return static_cast<char>(code);
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
};

}  // namespace

Json parse_pbtxt(std::string_view text, const std::string& where) {
  return Parser(text, where).parse();
}

}  // namespace convoy::formats
