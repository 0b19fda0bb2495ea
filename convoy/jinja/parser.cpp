#include "convoy/jinja/parser.h"

#include <optional>

#include "convoy/jinja/expression_parser.h"

namespace convoy::jinja {

namespace {

using Kind = Node::Kind;
using Words = std::initializer_list<std::string_view>;

class Parser : ExpressionParser {
 public:
  explicit Parser(std::string_view source) : ExpressionParser(tokenize(source)) {}

  Syntax parse() {
    syntax_.statements = statements({});
    for (const auto& [name, line] : loaded_) {
      for (const char* unknown : {"lipsum", "cycler", "joiner", "self", "super"}) {
        if (name == unknown && !stored_.contains(name)) {
          TokenStream::wrong_at(line, fmt::format("'{}' is not supported", name));
        }
      }
    }
    return std::move(syntax_);
  }

 private:
  /// Parses statements up to a tag with one of the words; without words to the end of the source.
  Block statements(Words ends, int line = 1) {
    const TokenStream::Level level(stream_);
    Block out;
    const auto put = [&](NodePtr part) {
      if (out.empty() || out.back()->kind != Kind::kOutput || out.back()->parts.empty()) {
        out.push_back(make(Kind::kOutput, part->line));
      }
      out.back()->parts.push_back(std::move(part));
    };
    while (!stream_.at(Token::Kind::kEnd)) {
      if (stream_.at(Token::Kind::kText)) {
        auto text = make(Kind::kConstant, stream_.line());
        text->value = Value::text(stream_.take().text);
        put(std::move(text));
      } else if (stream_.at(Token::Kind::kPrint)) {
        stream_.take();
        put(tuple(true));
        stream_.expect(Token::Kind::kPrintEnd, "'}}'");
      } else {
        stream_.expect(Token::Kind::kBlock, "a tag");
        if (stream_.at_word(ends)) return finish_all(std::move(out));
        out.push_back(statement());
        stream_.expect(Token::Kind::kBlockEnd, "'%}'");
      }
    }
    if (ends.size() > 0) {
      TokenStream::wrong_at(
          line, fmt::format("a block that begins here lacks its '{}'", *(ends.end() - 1)));
    }
    return finish_all(std::move(out));
  }

  Block finish_all(Block block) {
    for (NodePtr& node : block) node = finished(std::move(node));
    return block;
  }

  /// Parses the body of a block, whose head ends here. Skips the word that ends it, and returns it.
  std::string body(Node& node, Words ends) {
    stream_.skip_symbol(":");
    stream_.expect(Token::Kind::kBlockEnd, "'%}'");
    node.blocks.push_back(statements(ends, node.line));
    return stream_.take().text;
  }

  NodePtr statement() {
    const int line = stream_.line();
    const std::string word = stream_.expect_name("the name of a tag");
    if (word == "if") return if_(line);
    if (word == "for") return for_(line);
    if (word == "set") return set(line);
    if (word == "macro") return macro(line);
    if (word == "call") return call_block(line);
    if (word == "filter") return filter_block(line);
    if (word == "with") return with(line);
    if (word == "generation") return generation(line);
    if (word == "print") return print(line);
    if (word == "break" || word == "continue") {
      if (loops_ == 0)
        TokenStream::wrong_at(line, fmt::format("'{}' stands outside of a loop", word));
      return make(word == "break" ? Kind::kBreak : Kind::kContinue, line);
    }
    TokenStream::wrong_at(line, word.starts_with("end") || word == "else" || word == "elif"
                                    ? fmt::format("the tag '{}' ends nothing", word)
                                    : fmt::format("the tag '{}' is not supported", word));
  }

  NodePtr if_(int line) {
    auto node = make(Kind::kIf, line);
    for (;;) {
      node->parts.push_back(tuple(false));
      const std::string end = body(*node, {"elif", "else", "endif"});
      if (end == "elif") continue;
      if (end == "else") body(*node, {"endif"});
      return node;
    }
  }

  NodePtr for_(int line) {
    auto node = make(Kind::kFor, line);
    node->parts.push_back(target(false, "in"));
    check_not_loop(*node->parts[0]);
    stream_.expect_word("in");
    node->parts.push_back(tuple(false, "recursive"));
    node->parts.push_back(stream_.skip_word("if") ? expression() : nullptr);
    node->recursive = stream_.skip_word("recursive");
    ++loops_;
    const std::string end = body(*node, {"else", "endfor"});
    --loops_;
    if (end == "else") body(*node, {"endfor"});
    return node;
  }

  void check_not_loop(const Node& target) const {
    if (target.name == "loop") stream_.wrong("'loop' cannot be the variable of a loop");
    for (const auto& part : target.parts) check_not_loop(*part);
  }

  NodePtr set(int line) {
    auto node = make(Kind::kSet, line);
    node->parts.push_back(target(true));
    if (stream_.skip_symbol("=")) {
      node->parts.push_back(tuple(true));
      return node;
    }
    node->kind = Kind::kSetBlock;
    if (stream_.at_symbol("|")) node->subject = filters(make(Kind::kCaptured, line), false);
    body(*node, {"endset"});
    return node;
  }

  /// Parses the parameters of a macro, the last of which may have defaults.
  void signature(Node& node) {
    stream_.expect_symbol("(");
    while (!stream_.at_symbol(")")) {
      if (!node.parameters.empty()) stream_.expect_symbol(",");
      node.parameters.push_back(stream_.expect_name("the name of an argument"));
      stored_.insert(node.parameters.back());
      if (stream_.skip_symbol("=")) {
        node.parts.push_back(expression());
      } else if (!node.parts.empty()) {
        stream_.wrong("an argument without a default stands behind one that has it");
      }
    }
    stream_.expect_symbol(")");
  }

  /// Parses the body of a macro or a call, which no break leaves.
  void function_body(Node& node, Words ends) {
    const int around = std::exchange(loops_, 0);
    macros_.push_back(&node);
    body(node, ends);
    macros_.pop_back();
    loops_ = around;
  }

  NodePtr macro(int line) {
    auto node = make(Kind::kMacro, line);
    node->name = stream_.expect_name("the name of a macro");
    stored_.insert(node->name);
    signature(*node);
    function_body(*node, {"endmacro"});
    return node;
  }

  NodePtr call_block(int line) {
    auto node = make(Kind::kCallBlock, line);
    if (stream_.at_symbol("(")) signature(*node);
    node->subject = expression();
    if (node->subject->kind != Kind::kCall) TokenStream::wrong_at(line, "'call' takes a call");
    function_body(*node, {"endcall"});
    return node;
  }

  NodePtr filter_block(int line) {
    auto node = make(Kind::kFilterBlock, line);
    node->subject = filters(make(Kind::kCaptured, line), true);
    body(*node, {"endfilter"});
    return node;
  }

  NodePtr with(int line) {
    auto node = make(Kind::kWith, line);
    while (!stream_.at(Token::Kind::kBlockEnd)) {
      if (!node->parts.empty()) stream_.expect_symbol(",");
      node->parts.push_back(target(false));
      stream_.expect_symbol("=");
      node->parts.push_back(expression());
    }
    body(*node, {"endwith"});
    return node;
  }

  NodePtr generation(int line) {
    syntax_.has_generation = true;
    auto node = make(Kind::kGeneration, line);
    const int around = std::exchange(loops_, 0);
    body(*node, {"endgeneration"});
    loops_ = around;
    return node;
  }

  NodePtr print(int line) {
    auto node = make(Kind::kOutput, line);
    while (!stream_.at(Token::Kind::kBlockEnd)) {
      if (!node->parts.empty()) stream_.expect_symbol(",");
      node->parts.push_back(expression());
    }
    return node;
  }

  Syntax syntax_;
  int loops_ = 0;  ///< around, that a break may leave
};

}  // namespace

Syntax parse(std::string_view source) {
  return Parser(source).parse();
}

}  // namespace convoy::jinja
