#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "convoy/jinja/lexer.h"
#include "convoy/jinja/syntax.h"

namespace convoy::jinja {

inline constexpr int kMaxNesting = 150;  ///< brackets, blocks and signs in one another
inline constexpr int kMaxHeight = 400;   ///< also a + b + c + ..., which nests to the left

/// Tokens of a template, the one at hand first.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_.back(); }
  int line() const { return now().line; }

  bool at(Token::Kind kind) const { return now().kind == kind; }
  bool at_symbol(std::string_view text) const {
    return at(Token::Kind::kOperator) && now().text == text;
  }
  bool at_word(std::string_view text) const { return at(Token::Kind::kName) && now().text == text; }
  bool at_word(std::initializer_list<std::string_view> any) const;
  bool skip_symbol(std::string_view text);
  bool skip_word(std::string_view text);
  void expect_symbol(std::string_view text);
  void expect_word(std::string_view text);
  void expect(Token::Kind kind, std::string_view what);
  std::string expect_name(std::string_view what);

  [[noreturn]] void wrong(const std::string& what) const { wrong_at(line(), what); }
  [[noreturn]] static void wrong_at(int line, const std::string& what) {
    throw SyntaxTrouble(line, what);
  }
  /// Returns the token at hand in words.
  std::string shown() const;

  /// One level of brackets, blocks or signs.
  class Level {
   public:
    explicit Level(TokenStream& stream) : stream_(stream) {
      if (++stream_.depth_ > kMaxNesting) {
        stream_.wrong(fmt::format("it nests more than {} deep", kMaxNesting));
      }
    }
    ~Level() { --stream_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    TokenStream& stream_;
  };

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace convoy::jinja
