#include "convoy/jinja/token_stream.h"

#include <algorithm>

#include "convoy/base/text.h"

namespace convoy::jinja {

bool TokenStream::at_word(std::initializer_list<std::string_view> any) const {
  return at(Token::Kind::kName) && std::find(any.begin(), any.end(), now().text) != any.end();
}

bool TokenStream::skip_symbol(std::string_view text) {
  if (!at_symbol(text)) return false;
  take();
  return true;
}

bool TokenStream::skip_word(std::string_view text) {
  if (!at_word(text)) return false;
  take();
  return true;
}

void TokenStream::expect_symbol(std::string_view text) {
  if (!skip_symbol(text)) wrong(fmt::format("expected '{}', got {}", text, shown()));
}

void TokenStream::expect_word(std::string_view text) {
  if (!skip_word(text)) wrong(fmt::format("expected '{}', got {}", text, shown()));
}

void TokenStream::expect(Token::Kind kind, std::string_view what) {
  if (!at(kind)) wrong(fmt::format("expected {}, got {}", what, shown()));
  take();
}

std::string TokenStream::expect_name(std::string_view what) {
  if (!at(Token::Kind::kName)) wrong(fmt::format("expected {}, got {}", what, shown()));
  return take().text;
}

std::string TokenStream::shown() const {
  switch (now().kind) {
    case Token::Kind::kText:
      return "text";
    case Token::Kind::kPrint:
      return "'{{'";
    case Token::Kind::kPrintEnd:
      return "'}}'";
    case Token::Kind::kBlock:
      return "'{%'";
    case Token::Kind::kBlockEnd:
      return "'%}'";
    case Token::Kind::kEnd:
      return "the end of the template";
    case Token::Kind::kString:
      return fmt::format("the text '{}'", printable(now().text.substr(0, 40)));
    default:
      return fmt::format("'{}'", now().text.substr(0, 80));
  }
}

}  // namespace convoy::jinja
