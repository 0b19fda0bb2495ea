#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/jinja/callable.h"
#include "convoy/jinja/loop_state.h"
#include "convoy/jinja/parser.h"
#include "convoy/jinja/scope.h"
#include "convoy/jinja/template.h"

namespace convoy::jinja {

/// One rendering of a template. Throws Trouble; line() then says where.
class Renderer {
 public:
  Renderer(const Syntax& syntax, const RenderOptions& options);
  ~Renderer();
  Renderer(const Renderer&) = delete;
  Renderer& operator=(const Renderer&) = delete;

  Rendering run(const OrderedJson& variables);
  /// Line of the node at hand.
  int line() const { return line_; }

 private:
  enum class Flow { kOn, kBreak, kContinue };

  /// Makes `scope` the one at hand for a while.
  class InScope;
  class InDepth;

  // Statements.
  Flow run(const Block& block);
  Flow run(const Node& node);
  Flow run_if(const Node& node);
  Flow run_for(const Node& node);
  Flow loop_over(const Node& node, std::vector<Value> items, const std::shared_ptr<Scope>& around,
                 int depth);
  std::vector<Value> chosen(const Node& node, std::vector<Value> items);
  Flow run_with(const Node& node);
  void run_call_block(const Node& node);
  void run_generation(const Node& node);
  void assign(const Node& target, const Value& value);
  void put(const Value& value);
  /// Text of a block; `flow` is how it was left.
  Value capture(const Block& block, Flow& flow);
  Value filtered_capture(const Node& node, Flow& flow);
  std::shared_ptr<Scope> inner_scope() const;

  // Expressions.
  Value evaluate(const Node& node);
  Value evaluate_name(const Node& node);
  Value evaluate_compare(const Node& node);
  Value evaluate_call(const Node& node);
  Value evaluate_filter(const Node& node);
  Value evaluate_dict(const Node& node);
  Value evaluate_stretch(const Node& node);
  std::vector<Value> evaluate_all(const std::vector<NodePtr>& nodes);
  Arguments arguments_of(const Node& node);

  // Calls.
  Value call(const Value& callee, Arguments arguments);
  Value call_macro(const Callable& macro, Arguments arguments);
  Value call_function(std::string_view name, const Arguments& arguments);
  Value call_loop(const Value& callee, const Arguments& arguments);
  Value make_macro(const Node& node);
  Value make_namespace(const Arguments& arguments);
  Value make_dict(const Arguments& arguments);
  Value make_range(const Arguments& arguments);
  Value time_text(const Arguments& arguments) const;

  const Syntax& syntax_;
  const RenderOptions& options_;
  Budget budget_;
  int line_ = 1;
  Value variables_;
  std::shared_ptr<Scope> scope_;
  Text* out_ = nullptr;
  const Value* captured_ = nullptr;  ///< value of kCaptured
  // Whatever can refer to itself: emptied in the end.
  std::vector<std::shared_ptr<Scope>> scopes_;
  std::vector<std::shared_ptr<Namespace>> spaces_;
  std::vector<std::shared_ptr<LoopState>> loops_;
};

class Renderer::InScope {
 public:
  InScope(Renderer& renderer, std::shared_ptr<Scope> scope)
      : renderer_(renderer), before_(std::exchange(renderer.scope_, std::move(scope))) {}
  ~InScope() { renderer_.scope_ = std::move(before_); }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Renderer& renderer_;
  std::shared_ptr<Scope> before_;
};

class Renderer::InDepth {
 public:
  explicit InDepth(Budget& budget) : budget_(budget) { budget_.enter(); }
  ~InDepth() { budget_.leave(); }
  InDepth(const InDepth&) = delete;
  InDepth& operator=(const InDepth&) = delete;

 private:
  Budget& budget_;
};

}  // namespace convoy::jinja
