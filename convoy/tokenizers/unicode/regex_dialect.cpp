#include "convoy/tokenizers/unicode/regex_dialect.h"

#include <cctype>

#include "convoy/base/error.h"

namespace convoy::tokenizers {
namespace {

// White space as Oniguruma knows it.
constexpr const char* kSpace =
    R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr const char* kNoSpace =
    R"(\x00-\x08\x0E-\x1F\x21-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";

class Translator {
 public:
  Translator(std::string_view pattern, const CategoryWriter& category, const std::string& where)
      : pattern_(pattern), category_(category), where_(where) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        escape();
      } else if (c == '[') {
        open_bracket();
      } else if (c == ']' && depth_ > 0) {
        --depth_;
        copy(1);
      } else if (depth_ > 0) {
        if (rest().starts_with("&&")) refuse("&&");
        copy(1);
      } else if (c == '(') {
        group();
      } else if (c == '}' && rest().starts_with("}+")) {
        refuse("}+");  // possessive for one, repeated for the other
      } else if (rest().starts_with("{,")) {
        refuse("{,");  // from zero for one, these characters for the other
      } else if (c == '^' || c == '$') {
        refuse(rest().substr(0, 1));  // of lines for one, of the text for the other
      } else {
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  std::string_view rest() const { return pattern_.substr(at_); }
  void copy(size_t count) {
    out_ += rest().substr(0, count);
    at_ += count;
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail<FileError>("tokenizer",
                    "{}: '{}' in the regular expression '{}' (byte {}) is not supported; expected "
                    "classes of characters, groups, repetitions and lookaround",
                    where_, what, pattern_, at_);
  }

  void open_bracket() {
    if (depth_ > 0) refuse("[ inside [ ]");
    ++depth_;
    copy(1);
    if (rest().starts_with("^")) copy(1);
    if (rest().starts_with("]")) refuse("[]");
  }

  void group() {
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"}) {
      if (rest().starts_with(known)) return copy(known.size());
    }
    if (rest().starts_with("(?") || rest().starts_with("(*")) refuse(rest().substr(0, 3));
    copy(1);
  }

  /// Members of a class: inside brackets as they are, else in brackets of their own.
  void members(const std::string& members) { out_ += depth_ > 0 ? members : "[" + members + "]"; }

  void escape() {
    if (at_ + 1 == pattern_.size()) refuse("\\");
    const char c = pattern_[at_ + 1];
    if (c == 'p' || c == 'P') return property();
    if (c == 'u' || c == 'x') return number();
    if (c == 's') return at_ += 2, members(kSpace);
    if (c == 'S') return at_ += 2, members(kNoSpace);
    if (c == 'd' || c == 'D') return at_ += 2, members(category_("Nd", c == 'D'));
    if (c == 'v') return at_ += 2, out_ += "\\x0B", void();
    const bool known = std::string_view("rntf").find(c) != std::string_view::npos;
    if (known || std::ispunct(static_cast<unsigned char>(c))) return copy(2);
    refuse(rest().substr(0, 2));
  }

  void property() {
    bool negated = rest()[1] == 'P';
    const size_t close = rest().find('}');
    if (rest().substr(2, 1) != "{" || close == std::string_view::npos) refuse(rest().substr(0, 3));
    std::string_view name = rest().substr(3, close - 3);
    if (name.starts_with("^")) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const std::string written = category_(name, negated);
    if (written.empty()) refuse(rest().substr(0, close + 1));
    at_ += close + 1;
    members(written);
  }

  void number() {
    const bool braces = rest().substr(2, 1) == "{";
    std::string_view digits;
    size_t length = 0;
    if (braces) {
      const size_t close = rest().find('}');
      if (close == std::string_view::npos) refuse(rest().substr(0, 3));
      digits = rest().substr(3, close - 3);
      length = close + 1;
    } else {
      digits = rest().substr(2, rest()[1] == 'u' ? 4 : 2);
      length = 2 + digits.size();
    }
    bool good = !digits.empty() && digits.size() <= 6 && !(braces && rest()[1] == 'u');
    for (const char digit : digits) good &= std::isxdigit(static_cast<unsigned char>(digit)) != 0;
    if (!good) refuse(rest().substr(0, length));
    out_ += fmt::format("\\x{{{}}}", digits);
    at_ += length;
  }

  std::string_view pattern_;
  const CategoryWriter& category_;
  const std::string& where_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string out_;
};

}  // namespace

std::string to_pcre2(std::string_view pattern, const CategoryWriter& category,
                     const std::string& where) {
  return Translator(pattern, category, where).run();
}

}  // namespace convoy::tokenizers
