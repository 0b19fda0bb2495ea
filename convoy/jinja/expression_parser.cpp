#include "convoy/jinja/expression_parser.h"

#include <algorithm>
#include <optional>

#include "convoy/jinja/methods.h"

namespace convoy::jinja {

using Kind = Node::Kind;

NodePtr ExpressionParser::make(Kind kind, int line) const {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  node->line = line;
  return node;
}

NodePtr ExpressionParser::finished(NodePtr node) const {
  int below = 0;
  const auto look = [&](const NodePtr& child) {
    if (child != nullptr) below = std::max(below, child->height);
  };
  look(node->subject);
  look(node->star);
  look(node->star_star);
  for (const auto& part : node->parts) look(part);
  for (const auto& [name, part] : node->named) look(part);
  for (const auto& block : node->blocks) {
    for (const auto& each : block) look(each);
  }
  node->height = below + 1;
  if (node->height > kMaxHeight) {
    TokenStream::wrong_at(node->line, fmt::format("it nests more than {} deep", kMaxHeight));
  }
  return node;
}

NodePtr ExpressionParser::binary(int line, Operator op, NodePtr left, NodePtr right) const {
  auto node = make(Kind::kBinary, line);
  node->op = op;
  node->parts.push_back(std::move(left));
  node->parts.push_back(std::move(right));
  return finished(std::move(node));
}

NodePtr ExpressionParser::expression(bool conditional) {
  const TokenStream::Level level(stream_);
  NodePtr value = or_();
  while (conditional && stream_.at_word("if")) {
    auto node = make(Kind::kChoice, stream_.take().line);
    node->parts.push_back(or_());
    node->parts.push_back(std::move(value));
    node->parts.push_back(stream_.skip_word("else") ? expression() : nullptr);
    value = finished(std::move(node));
  }
  return value;
}

NodePtr ExpressionParser::or_() {
  NodePtr left = and_();
  if (!stream_.at_word("or")) return left;
  auto node = make(Kind::kOr, stream_.line());
  node->parts.push_back(std::move(left));
  while (stream_.skip_word("or")) node->parts.push_back(and_());
  return finished(std::move(node));
}

NodePtr ExpressionParser::and_() {
  NodePtr left = not_();
  if (!stream_.at_word("and")) return left;
  auto node = make(Kind::kAnd, stream_.line());
  node->parts.push_back(std::move(left));
  while (stream_.skip_word("and")) node->parts.push_back(not_());
  return finished(std::move(node));
}

NodePtr ExpressionParser::not_() {
  if (!stream_.at_word("not")) return compare();
  const TokenStream::Level level(stream_);
  auto node = make(Kind::kNot, stream_.take().line);
  node->subject = not_();
  return finished(std::move(node));
}

NodePtr ExpressionParser::compare() {
  NodePtr left = sums();
  auto node = make(Kind::kCompare, stream_.line());
  const auto comparison = [&]() -> std::optional<CompareOperator> {
    constexpr std::pair<std::string_view, CompareOperator> kSymbols[] = {
        {"==", CompareOperator::kEqual},  {"!=", CompareOperator::kNotEqual},
        {"<", CompareOperator::kLess},    {"<=", CompareOperator::kLessEqual},
        {">", CompareOperator::kGreater}, {">=", CompareOperator::kGreaterEqual}};
    for (const auto& [symbol, which] : kSymbols) {
      if (stream_.skip_symbol(symbol)) return which;
    }
    if (stream_.skip_word("in")) return CompareOperator::kIn;
    const Token& ahead = stream_.ahead();
    if (stream_.at_word("not") && ahead.kind == Token::Kind::kName && ahead.text == "in") {
      stream_.take();
      stream_.take();
      return CompareOperator::kNotIn;
    }
    return std::nullopt;
  };
  while (const auto which = comparison()) {
    node->comparisons.push_back(*which);
    if (left != nullptr) node->parts.push_back(std::move(left));
    node->parts.push_back(sums());
  }
  return node->parts.empty() ? std::move(left) : finished(std::move(node));
}

NodePtr ExpressionParser::sums() {
  NodePtr left = joined();
  while (stream_.at_symbol("+") || stream_.at_symbol("-")) {
    const Token& sign = stream_.take();
    const Operator op = sign.text == "+" ? Operator::kAdd : Operator::kSub;
    const int line = sign.line;
    left = binary(line, op, std::move(left), joined());
  }
  return left;
}

NodePtr ExpressionParser::joined() {
  NodePtr left = products();
  if (!stream_.at_symbol("~")) return left;
  auto node = make(Kind::kJoin, stream_.line());
  node->parts.push_back(std::move(left));
  while (stream_.skip_symbol("~")) node->parts.push_back(products());
  return finished(std::move(node));
}

NodePtr ExpressionParser::products() {
  NodePtr left = power();
  constexpr std::pair<std::string_view, Operator> kSymbols[] = {{"*", Operator::kMul},
                                                                {"/", Operator::kDiv},
                                                                {"//", Operator::kFloorDiv},
                                                                {"%", Operator::kMod}};
  for (;;) {
    const auto* found =
        std::find_if(std::begin(kSymbols), std::end(kSymbols),
                     [&](const auto& each) { return stream_.at_symbol(each.first); });
    if (found == std::end(kSymbols)) return left;
    const int line = stream_.take().line;
    left = binary(line, found->second, std::move(left), power());
  }
}

NodePtr ExpressionParser::power() {
  NodePtr left = unary(true);
  while (stream_.at_symbol("**")) {
    const int line = stream_.take().line;
    left = binary(line, Operator::kPow, std::move(left), unary(true));
  }
  return left;
}

NodePtr ExpressionParser::unary(bool with_filters) {
  NodePtr node;
  if (stream_.at_symbol("-") || stream_.at_symbol("+")) {
    const TokenStream::Level level(stream_);
    const bool minus = stream_.at_symbol("-");
    node = make(minus ? Kind::kNegative : Kind::kPositive, stream_.take().line);
    node->subject = unary(false);
    node = finished(std::move(node));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filters ? filters_and_tests(std::move(node)) : std::move(node);
}

NodePtr ExpressionParser::name_or_word() {
  const Token& token = stream_.take();
  const std::string& name = token.text;
  auto node = make(Kind::kConstant, token.line);
  if (name == "true" || name == "True") {
    node->value = Value(true);
  } else if (name == "false" || name == "False") {
    node->value = Value(false);
  } else if (name != "none" && name != "None") {
    node->kind = Kind::kName;
    node->name = name;
    loaded_.emplace_back(name, token.line);
    for (Node* macro : macros_) {
      macro->uses_caller |= name == "caller";
      macro->uses_varargs |= name == "varargs";
      macro->uses_kwargs |= name == "kwargs";
    }
  }
  return node;
}

NodePtr ExpressionParser::primary() {
  const Token& token = stream_.now();
  if (token.kind == Token::Kind::kName) return name_or_word();
  if (token.kind == Token::Kind::kString) {
    auto node = make(Kind::kConstant, token.line);
    std::string text;
    while (stream_.at(Token::Kind::kString)) text += stream_.take().text;
    node->value = Value::text(std::move(text));
    return node;
  }
  if (token.kind == Token::Kind::kNumber) {
    auto node = make(Kind::kConstant, token.line);
    node->value = stream_.take().number;
    return node;
  }
  if (stream_.skip_symbol("(")) {
    NodePtr node = tuple(true, "", true);
    stream_.expect_symbol(")");
    return node;
  }
  if (stream_.at_symbol("[")) return list();
  if (stream_.at_symbol("{")) return dict();
  stream_.wrong(fmt::format("unexpected {}", stream_.shown()));
}

NodePtr ExpressionParser::tuple(bool conditional, std::string_view end_word, bool parenthesised) {
  auto node = make(Kind::kTuple, stream_.line());
  bool several = false;
  const auto ends = [&] {
    return stream_.at(Token::Kind::kPrintEnd) || stream_.at(Token::Kind::kBlockEnd) ||
           stream_.at_symbol(")") || (!end_word.empty() && stream_.at_word(end_word));
  };
  for (;;) {
    if (!node->parts.empty()) stream_.expect_symbol(",");
    if (ends()) break;
    node->parts.push_back(expression(conditional));
    if (!stream_.at_symbol(",")) break;
    several = true;
  }
  if (several) return finished(std::move(node));
  if (!node->parts.empty()) return std::move(node->parts[0]);
  if (!parenthesised) stream_.wrong(fmt::format("expected an expression, got {}", stream_.shown()));
  return finished(std::move(node));
}

NodePtr ExpressionParser::list() {
  auto node = make(Kind::kList, stream_.take().line);
  while (!stream_.at_symbol("]")) {
    if (!node->parts.empty()) stream_.expect_symbol(",");
    if (stream_.at_symbol("]")) break;
    node->parts.push_back(expression());
  }
  stream_.expect_symbol("]");
  return finished(std::move(node));
}

NodePtr ExpressionParser::dict() {
  auto node = make(Kind::kDict, stream_.take().line);
  while (!stream_.at_symbol("}")) {
    if (!node->parts.empty()) stream_.expect_symbol(",");
    if (stream_.at_symbol("}")) break;
    node->parts.push_back(expression());
    stream_.expect_symbol(":");
    node->parts.push_back(expression());
  }
  stream_.expect_symbol("}");
  return finished(std::move(node));
}

NodePtr ExpressionParser::target(bool spaces, std::string_view end_word) {
  auto node = make(Kind::kTuple, stream_.line());
  bool several = false;
  for (;;) {
    if (!node->parts.empty()) stream_.expect_symbol(",");
    if (stream_.at(Token::Kind::kBlockEnd) || stream_.at_symbol(")") || stream_.at_symbol("=") ||
        (!end_word.empty() && stream_.at_word(end_word))) {
      break;
    }
    const int line = stream_.line();
    if (stream_.skip_symbol("(")) {
      const TokenStream::Level level(stream_);
      NodePtr inner = target(spaces);
      stream_.expect_symbol(")");
      node->parts.push_back(std::move(inner));
    } else {
      auto part = make(Kind::kName, line);
      part->name = stream_.expect_name("a name to give a value");
      if (spaces && stream_.skip_symbol(".")) {
        part->kind = Kind::kOfSpace;
        part->value = Value::text(stream_.expect_name("a name behind '.'"));
        loaded_.emplace_back(part->name, line);
      } else {
        for (const char* word : {"true", "True", "false", "False", "none", "None"}) {
          if (part->name == word) stream_.wrong(fmt::format("'{}' cannot be given a value", word));
        }
        stored_.insert(part->name);
      }
      node->parts.push_back(std::move(part));
    }
    if (!stream_.at_symbol(",")) break;
    several = true;
  }
  if (node->parts.empty()) stream_.wrong(fmt::format("expected a name, got {}", stream_.shown()));
  return several ? finished(std::move(node)) : std::move(node->parts[0]);
}

}  // namespace convoy::jinja
