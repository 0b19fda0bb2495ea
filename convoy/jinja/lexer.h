#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convoy/jinja/value.h"

namespace convoy::jinja {

struct Token {
  enum class Kind {
    kText,  ///< outside of all tags
    kPrint,
    kPrintEnd,
    kBlock,
    kBlockEnd,
    kName,
    kString,
    kNumber,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  int line = 1;
  std::string text;  ///< name, operator, or the text without its quotes and escapes
  Value number;
};

/// Mistake in a template at a line.
class SyntaxTrouble : public Trouble {
 public:
  SyntaxTrouble(int line, const std::string& what) : Trouble(what), line_(line) {}
  int line() const { return line_; }

 private:
  int line_;
};

/// Cuts a template into tokens as Jinja does with trim_blocks and lstrip_blocks. Throws
/// SyntaxTrouble.
std::vector<Token> tokenize(std::string_view source);

}  // namespace convoy::jinja
