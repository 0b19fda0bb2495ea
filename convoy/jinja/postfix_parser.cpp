#include "convoy/jinja/expression_parser.h"
#include "convoy/jinja/methods.h"

// Parts of ExpressionParser: what stands behind a value, .name [item] (call) |filter and `is test`.
namespace convoy::jinja {

using Kind = Node::Kind;

namespace {

bool begins_value(const TokenStream& stream) {
  using T = Token::Kind;
  return stream.at(T::kName) || stream.at(T::kString) || stream.at(T::kNumber) ||
         stream.at_symbol("(") || stream.at_symbol("[") || stream.at_symbol("{");
}

}  // namespace

NodePtr ExpressionParser::postfix(NodePtr node) {
  for (;;) {
    if (stream_.at_symbol(".") || stream_.at_symbol("["))
      node = subscript(std::move(node));
    else if (stream_.at_symbol("("))
      node = call(std::move(node));
    else
      return node;
  }
}

NodePtr ExpressionParser::filters_and_tests(NodePtr node) {
  for (;;) {
    if (stream_.at_symbol("|"))
      node = filters(std::move(node), false);
    else if (stream_.at_word("is"))
      node = test(std::move(node));
    else if (stream_.at_symbol("("))
      node = call(std::move(node));
    else
      return node;
  }
}

NodePtr ExpressionParser::subscript(NodePtr subject) {
  const Token& token = stream_.take();
  const int line = token.line;
  if (token.text == ".") {
    auto node = make(Kind::kAttribute, line);
    node->subject = std::move(subject);
    if (stream_.at(Token::Kind::kNumber) && stream_.now().number.as<int64_t>() != nullptr) {
      node->kind = Kind::kItem;
      auto place = make(Kind::kConstant, line);
      place->value = stream_.take().number;
      node->parts.push_back(std::move(place));
    } else {
      node->name = stream_.expect_name("a name or a number behind '.'");
    }
    return finished(std::move(node));
  }
  auto node = make(Kind::kItem, line);
  node->subject = std::move(subject);
  const auto ends = [&] { return stream_.at_symbol("]") || stream_.at_symbol(","); };
  NodePtr begin = stream_.at_symbol(":") || ends() ? nullptr : expression();
  if (stream_.at_symbol(":")) {
    node->kind = Kind::kStretch;
    node->parts.push_back(std::move(begin));
    while (stream_.skip_symbol(":")) {
      node->parts.push_back(stream_.at_symbol(":") || ends() ? nullptr : expression());
    }
    if (node->parts.size() > 3) stream_.wrong("[::] has at most three parts");
    node->parts.resize(3);
  } else if (begin != nullptr) {
    node->parts.push_back(std::move(begin));
  }
  if (stream_.at_symbol(",")) stream_.wrong("several items in [] are not supported");
  if (node->parts.empty()) stream_.wrong("expected an item in []");
  stream_.expect_symbol("]");
  return finished(std::move(node));
}

void ExpressionParser::call_arguments(Node& node) {
  const TokenStream::Level level(stream_);
  stream_.expect_symbol("(");
  bool first = true;
  while (!stream_.at_symbol(")")) {
    if (!first) {
      stream_.expect_symbol(",");
      if (stream_.at_symbol(")")) break;
    }
    first = false;
    const bool starred = node.star != nullptr || node.star_star != nullptr;
    const Token& ahead = stream_.ahead();
    if (stream_.at_symbol("*") && !starred) {
      stream_.take();
      node.star = expression();
    } else if (stream_.at_symbol("**") && node.star_star == nullptr) {
      stream_.take();
      node.star_star = expression();
    } else if (stream_.at(Token::Kind::kName) && ahead.kind == Token::Kind::kOperator &&
               ahead.text == "=" && node.star_star == nullptr) {
      std::string name = stream_.take().text;
      stream_.take();
      for (const auto& [other, value] : node.named) {
        if (other == name) stream_.wrong(fmt::format("the argument '{}' is given twice", name));
      }
      node.named.emplace_back(std::move(name), expression());
    } else {
      if (starred || !node.named.empty())
        stream_.wrong("an argument stands behind one with a name");
      node.parts.push_back(expression());
    }
  }
  stream_.expect_symbol(")");
}

NodePtr ExpressionParser::call(NodePtr subject) {
  auto node = make(Kind::kCall, stream_.line());
  if (subject->kind == Kind::kAttribute && is_refused_method(subject->name)) {
    stream_.wrong(fmt::format("the method '{}' is not supported", subject->name));
  }
  node->subject = std::move(subject);
  call_arguments(*node);
  return finished(std::move(node));
}

void ExpressionParser::check_named_function(const Node& node) const {
  // Filters and tests that filters take by name.
  const auto constant = [&](size_t i) {
    const bool there = i < node.parts.size() && node.parts[i]->kind == Kind::kConstant;
    return there ? node.parts[i]->value.as_text() : nullptr;
  };
  if (node.name == "map") {
    const Text* name = constant(0);
    if (name != nullptr && find_filter(name->bytes) == nullptr) {
      TokenStream::wrong_at(node.line,
                            fmt::format("the filter '{}' is not supported", name->bytes));
    }
  }
  const bool by_attribute = node.name == "selectattr" || node.name == "rejectattr";
  if (by_attribute || node.name == "select" || node.name == "reject") {
    const Text* name = constant(by_attribute ? 1 : 0);
    if (name != nullptr && find_check(name->bytes) == nullptr) {
      TokenStream::wrong_at(node.line, fmt::format("the test '{}' is not supported", name->bytes));
    }
  }
}

NodePtr ExpressionParser::filters(NodePtr subject, bool first_is_bare) {
  while (first_is_bare || stream_.skip_symbol("|")) {
    first_is_bare = false;
    auto node = make(Kind::kFilter, stream_.line());
    node->subject = std::move(subject);
    node->name = stream_.expect_name("the name of a filter");
    while (stream_.skip_symbol("."))
      node->name += "." + stream_.expect_name("the name of a filter");
    node->filter = find_filter(node->name);
    if (node->filter == nullptr) {
      TokenStream::wrong_at(node->line,
                            fmt::format("the filter '{}' is not supported", node->name));
    }
    if (stream_.at_symbol("(")) call_arguments(*node);
    check_named_function(*node);
    subject = finished(std::move(node));
  }
  return subject;
}

NodePtr ExpressionParser::test(NodePtr subject) {
  auto node = make(Kind::kTest, stream_.take().line);
  node->subject = std::move(subject);
  const bool negated = stream_.skip_word("not");
  node->name = stream_.expect_name("the name of a test");
  while (stream_.skip_symbol(".")) node->name += "." + stream_.expect_name("the name of a test");
  node->check = find_check(node->name);
  if (node->check == nullptr) {
    TokenStream::wrong_at(node->line, fmt::format("the test '{}' is not supported", node->name));
  }
  if (stream_.at_symbol("(")) {
    call_arguments(*node);
  } else if (begins_value(stream_) && !stream_.at_word({"else", "or", "and"})) {
    if (stream_.at_word("is")) stream_.wrong("tests with 'is' cannot stand behind one another");
    node->parts.push_back(postfix(primary()));
  }
  NodePtr out = finished(std::move(node));
  if (!negated) return out;
  auto inverse = make(Kind::kNot, out->line);
  inverse->subject = std::move(out);
  return finished(std::move(inverse));
}

}  // namespace convoy::jinja
