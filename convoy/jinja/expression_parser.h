#pragma once

#include <set>
#include <string>
#include <vector>

#include "convoy/jinja/token_stream.h"

namespace convoy::jinja {

/// Reads expressions, in Jinja's grammar. Names of filters, tests and methods that convoy does not
/// have are refused here, with their line.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : stream_(std::move(tokens)) {}

 protected:
  /// `conditional`: takes `a if b else c`.
  NodePtr expression(bool conditional = true);
  /// An expression, or several with commas. `end_word` ends them.
  NodePtr tuple(bool conditional, std::string_view end_word = "", bool parenthesised = false);
  /// Target of an assignment: a name, `space.name` if asked, or several.
  NodePtr target(bool spaces, std::string_view end_word = "");
  /// Filters behind `subject`, the first without its "|".
  NodePtr filters(NodePtr subject, bool first_is_bare);

  NodePtr make(Node::Kind kind, int line) const;
  /// Counts the levels below, and refuses too many.
  NodePtr finished(NodePtr node) const;

  TokenStream stream_;
  std::set<std::string, std::less<>> stored_;        ///< names that the template gives values
  std::vector<std::pair<std::string, int>> loaded_;  ///< names that it reads, with lines
  std::vector<Node*> macros_;                        ///< the ones around, innermost last

 private:
  NodePtr or_(), and_(), not_(), compare(), sums(), joined(), products(), power();
  NodePtr unary(bool with_filters);
  NodePtr primary();
  NodePtr name_or_word();
  NodePtr list(), dict();
  NodePtr postfix(NodePtr node);
  NodePtr filters_and_tests(NodePtr node);
  NodePtr subscript(NodePtr subject);
  NodePtr test(NodePtr subject);
  void call_arguments(Node& node);
  NodePtr call(NodePtr subject);
  NodePtr binary(int line, Operator op, NodePtr left, NodePtr right) const;
  void check_named_function(const Node& node) const;
};

}  // namespace convoy::jinja
