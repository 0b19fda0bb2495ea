#include "convoy/tokenizers/unicode/scanner.h"

#include "convoy/tokenizers/unicode/unicode.h"

namespace convoy::tokenizers {

const std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class Kind { Letter, Number, Space, Other };

/// Steps over characters by kind.
class Cursor {
 public:
  Cursor(std::string_view text, size_t at) : text_(text), at_(at) {}

  size_t at() const { return at_; }
  bool at_end() const { return at_ == text_.size(); }
  char byte() const { return text_[at_]; }
  bool at_line_break() const { return !at_end() && (byte() == '\r' || byte() == '\n'); }

  Kind kind() const {
    size_t at = at_;
    const char32_t c = next_character(text_, at);
    if (characters_.is_letter(c)) return Kind::Letter;
    if (characters_.is_number(c)) return Kind::Number;
    return characters_.is_space(c) ? Kind::Space : Kind::Other;
  }
  void step() { next_character(text_, at_); }
  size_t skip(Kind kind) {
    while (!at_end() && this->kind() == kind) step();
    return at_;
  }

 private:
  const Characters& characters_ = Characters::get();
  std::string_view text_;
  size_t at_;
};

/// `\s+(?!\S)|\s+`: white space up to its end, or to its last character when more text follows.
size_t skip_space(std::string_view text, size_t at) {
  const size_t end = Cursor(text, at).skip(Kind::Space);
  if (end == text.size()) return end;
  const size_t last = previous_character(text, end);
  return last == at ? end : last;
}

/// Bytes of an English contraction after an apostrophe: 's, 't, 'm, 'd, 're, 've, 'll; 0 for none.
size_t contraction_length(std::string_view text, size_t at, bool any_case) {
  const auto letter = [&](size_t i) {
    const char c = at + i < text.size() ? text[at + i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? 3 : 0;
    case 'l':
      return letter(2) == 'l' ? 3 : 0;
    default:
      // The long s, U+017F, is an s to whoever ignores case.
      return any_case && text.substr(at + 1).starts_with("\xC5\xBF") ? 3 : 0;
  }
}

size_t scan_gpt2(std::string_view text, size_t at) {
  if (text[at] == '\'') {
    const size_t length = contraction_length(text, at, false);
    if (length > 0) return at + length;
  }
  Cursor cursor(text, at);
  Kind kind = cursor.kind();
  if (kind == Kind::Space) {
    if (text[at] != ' ') return skip_space(text, at);
    cursor.step();
    if (cursor.at_end()) return cursor.at();
    kind = cursor.kind();
    if (kind == Kind::Space) return skip_space(text, at);
  }
  return cursor.skip(kind);
}

/// Matches white space as Llama 3: through its last line break, else as GPT-2.
size_t scan_llama3_space(std::string_view text, size_t at) {
  const size_t end = Cursor(text, at).skip(Kind::Space);
  const size_t line_break = text.substr(at, end - at).find_last_of("\r\n");
  return line_break == std::string_view::npos ? skip_space(text, at) : at + line_break + 1;
}

template <int max_digits>
size_t scan_llama3(std::string_view text, size_t at) {
  if (text[at] == '\'') {
    const size_t length = contraction_length(text, at, true);
    if (length > 0) return at + length;
  }
  Cursor cursor(text, at);
  const Kind kind = cursor.kind();
  if (kind == Kind::Letter) return cursor.skip(Kind::Letter);
  if (kind == Kind::Number) {
    for (int i = 0; i < max_digits && !cursor.at_end() && cursor.kind() == Kind::Number; ++i) {
      cursor.step();
    }
    return cursor.at();
  }
  const bool line_break = cursor.at_line_break();
  const bool blank = text[at] == ' ';
  cursor.step();
  const Kind next = cursor.at_end() ? Kind::Space : cursor.kind();
  if (next == Kind::Letter && !line_break) return cursor.skip(Kind::Letter);
  if (kind == Kind::Space && !(blank && next == Kind::Other)) return scan_llama3_space(text, at);
  cursor.skip(Kind::Other);
  while (cursor.at_line_break()) cursor.step();
  return cursor.at();
}

}  // namespace

Scanner find_scanner(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return scan_gpt2;
  if (pattern == kLlama3Pattern) return scan_llama3<3>;
  if (pattern == kQwen2Pattern) return scan_llama3<1>;
  return nullptr;
}

}  // namespace convoy::tokenizers
