#include "convoy/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "convoy/base/text.h"
#include "convoy/jinja/string_literal.h"
#include "convoy/jinja/unicode.h"

namespace convoy::jinja {

namespace {

using TokenKind = Token::Kind;

/// Returns the source with \n for all line ends, and without one at its end.
std::string normalized(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word(char c) {
  return is_digit(c) || c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) outside();
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const { throw SyntaxTrouble(line_, what); }

  bool see(std::string_view wanted) const { return source_.substr(at_).starts_with(wanted); }

  void advance(size_t count) {
    const auto passed = source_.substr(at_, count);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    if (!passed.empty()) line_starts_ = passed.back() == '\n';
    at_ += passed.size();
  }

  void add(TokenKind kind, std::string text, Value number = {}) {
    tokens_.push_back({kind, line_, std::move(text), std::move(number)});
  }

  void skip_space() { advance(space_in_front(source_.substr(at_))); }

  /// Length of an end tag `-%}`, `+%}` or `%}` here; 0 for none.
  size_t end_tag(std::string_view end, bool plus) const {
    const std::string_view rest = source_.substr(at_);
    if (rest.starts_with(end)) return end.size();
    const bool sign = rest.starts_with('-') || (plus && rest.starts_with('+'));
    return sign && rest.substr(1).starts_with(end) ? end.size() + 1 : 0;
  }

  /// Passes an end tag and the white space that belongs to it.
  void pass_end(size_t length, bool trims_line) {
    const bool minus = source_[at_] == '-', plus = source_[at_] == '+';
    advance(length);
    if (minus) {
      const size_t space = space_in_front(source_.substr(at_));
      if (space > 0) advance(space);
    } else if (!plus && trims_line && see("\n")) {
      advance(1);
    }
  }

  /// Text before a tag with the sign -, + or none, which may strip white space from its end.
  std::string_view before_tag(std::string_view text, char sign, bool is_print) const {
    if (sign == '-') return text.substr(0, text.size() - space_behind(text));
    if (sign == '+' || is_print) return text;
    const size_t newline = text.rfind('\n');
    const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (begin == 0 && !line_starts_) return text;
    const std::string_view line = text.substr(begin);
    return !line.empty() && space_in_front(line) == line.size() ? text.substr(0, begin) : text;
  }

  size_t next_tag() const {
    for (size_t at = at_; (at = source_.find('{', at)) != std::string_view::npos; ++at) {
      const char next = at + 1 < source_.size() ? source_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return std::string_view::npos;
  }

  void outside() {
    const size_t tag = next_tag();
    if (tag == std::string_view::npos) {
      add(TokenKind::kText, std::string(source_.substr(at_)));
      return advance(source_.size() - at_);
    }
    const char type = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool signs = sign == '-' || sign == '+';
    const auto text = before_tag(source_.substr(at_, tag - at_), signs ? sign : '\0', type == '{');
    if (!text.empty()) add(TokenKind::kText, std::string(text));
    advance(tag - at_);
    if (type == '%' && raw()) return;
    const int begin = line_;
    advance(signs ? 3 : 2);
    if (type == '#') return comment();
    line_ = begin;
    add(type == '{' ? TokenKind::kPrint : TokenKind::kBlock, "");
    inside(type == '{');
  }

  void comment() {
    if (at_ == source_.size()) return;  // jinja2 minds only what follows
    size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) wrong("a comment does not end");
    if (end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+')) --end;
    advance(end - at_);
    pass_end(end_tag("#}", true), true);
  }

  /// Place behind `{%`, a sign, and the word, or npos.
  size_t behind_word(size_t at, std::string_view word) const {
    at += 2;
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
    if (at > source_.size()) return std::string_view::npos;
    at += space_in_front(source_.substr(at));
    if (!source_.substr(at).starts_with(word)) return std::string_view::npos;
    at += word.size();
    return at + space_in_front(source_.substr(at));
  }

  /// Passes a {% raw %} block; false where there is none.
  bool raw() {
    const size_t begin = behind_word(at_, "raw");
    if (begin == std::string_view::npos) return false;
    const std::string_view rest = source_.substr(begin);
    if (!rest.starts_with("%}") && !rest.starts_with("-%}")) return false;
    advance(begin - at_);
    pass_end(end_tag("%}", false), false);
    if (at_ == source_.size()) return true;  // as for comments
    for (size_t tag = at_; (tag = source_.find("{%", tag)) != std::string_view::npos; ++tag) {
      const size_t end = behind_word(tag, "endraw");
      if (end == std::string_view::npos) continue;
      const char sign = source_[tag + 2];
      const size_t start = at_;
      const auto text = before_tag(source_.substr(start, tag - start), sign, false);
      const size_t kept = at_;
      at_ = end;
      const size_t length = end_tag("%}", true);
      at_ = kept;
      if (length == 0) continue;
      if (!text.empty()) add(TokenKind::kText, std::string(text));
      advance(end - at_);
      pass_end(length, true);
      return true;
    }
    wrong("a {% raw %} does not end");
  }

  void inside(bool print) {
    const std::string_view end = print ? "}}" : "%}";
    std::string open;
    for (;;) {
      if (open.empty()) {
        if (const size_t length = end_tag(end, !print); length > 0) {
          add(print ? TokenKind::kPrintEnd : TokenKind::kBlockEnd, "");
          return pass_end(length, !print);
        }
      }
      skip_space();
      if (at_ >= source_.size()) wrong("a tag does not end");
      if (open.empty() && end_tag(end, !print) > 0) continue;
      const char c = source_[at_];
      if (is_digit(c))
        number();
      else if (is_word(c))
        name();
      else if (c == '"' || c == '\'')
        string(c);
      else
        symbol(open);
    }
  }

  void name() {
    size_t end = at_;
    while (end < source_.size() && is_word(source_[end])) ++end;
    if (end - at_ > 256) wrong("a name has more than 256 characters");
    add(TokenKind::kName, std::string(source_.substr(at_, end - at_)));
    advance(end - at_);
  }

  void string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) wrong("a text in quotes does not end");
    std::string value;
    try {
      value = read_escapes(source_.substr(at_ + 1, end - at_ - 1));
    } catch (const Trouble& mistake) {
      wrong(mistake.what());
    }
    add(TokenKind::kString, std::move(value));
    advance(end + 1 - at_);
  }

  /// Passes digits with single underscores between them.
  size_t digits(size_t at, bool hexadecimal = false) const {
    const auto fits = [&](size_t i) {
      return i < source_.size() &&
             (is_digit(source_[i]) ||
              (hexadecimal && (source_[i] | 0x20) >= 'a' && (source_[i] | 0x20) <= 'f'));
    };
    while (fits(at) || (at < source_.size() && source_[at] == '_' && fits(at - 1) && fits(at + 1)))
      ++at;
    return at;
  }

  void number() {
    const auto at = [&](size_t i) { return i < source_.size() ? source_[i] : '\0'; };
    const bool behind_dot = at_ > 0 && source_[at_ - 1] == '.';
    size_t end = digits(at_);
    bool real = false;
    if (!behind_dot) {
      size_t more = end;
      if (at(more) == '.' && is_digit(at(more + 1))) {
        more = digits(more + 1);
        real = true;
      }
      if ((at(more) | 0x20) == 'e') {
        const size_t sign = at(more + 1) == '+' || at(more + 1) == '-' ? 1 : 0;
        if (is_digit(at(more + 1 + sign))) {
          more = digits(more + 1 + sign);
          real = true;
        }
      }
      if (real) end = more;
    }
    int base = 10;
    if (!real && at(at_) == '0') {
      const char letter = static_cast<char>(at(at_ + 1) | 0x20);
      base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
      if (base != 10)
        end = digits(at_ + 2, base == 16);
      else
        while (end > at_ + 1 &&
               source_.substr(at_, end - at_).find_first_not_of("0_") != std::string_view::npos)
          --end;
    }
    std::string text(source_.substr(at_, end - at_));
    std::erase(text, '_');
    Value value;
    if (real) {
      double number = 0;
      std::from_chars(text.data(), text.data() + text.size(), number);
      if (!std::isfinite(number)) wrong(fmt::format("the number {} is too large", text));
      value = Value(number);
    } else {
      int64_t number = 0;
      const char* begin = text.data() + (base != 10 ? 2 : 0);
      const auto read = std::from_chars(begin, text.data() + text.size(), number, base);
      if (read.ec != std::errc() || read.ptr != text.data() + text.size()) {
        wrong(fmt::format("the number {} is no whole number of 64 bits", text));
      }
      value = Value(number);
    }
    add(TokenKind::kNumber, std::move(text), std::move(value));
    advance(end - at_);
  }

  void symbol(std::string& open) {
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (see(two)) {
        add(TokenKind::kOperator, std::string(two));
        return advance(2);
      }
    }
    const char c = source_[at_];
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      size_t end = at_;
      next_character(source_, end);
      wrong(fmt::format("unexpected '{}'", printable(source_.substr(at_, end - at_))));
    }
    if (c == '{') open += '}';
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '}' || c == ')' || c == ']') {
      if (open.empty() || open.back() != c) wrong(fmt::format("unexpected '{}'", c));
      open.pop_back();
    }
    add(TokenKind::kOperator, std::string(1, c));
    advance(1);
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (!is_utf8(source)) throw SyntaxTrouble(1, "it is not UTF-8");
  const std::string text = normalized(source);
  return Lexer(text).run();
}

}  // namespace convoy::jinja
