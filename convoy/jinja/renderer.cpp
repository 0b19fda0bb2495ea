#include "convoy/jinja/renderer.h"

#include <algorithm>

#include "convoy/jinja/access.h"
#include "convoy/jinja/python_text.h"

namespace convoy::jinja {

using Kind = Node::Kind;

Renderer::Renderer(const Syntax& syntax, const RenderOptions& options)
    : syntax_(syntax),
      options_(options),
      budget_(options.limits),
      scope_(std::make_shared<Scope>()) {}

Renderer::~Renderer() {
  for (const auto& scope : scopes_) scope->variables.clear();
  for (const auto& space : spaces_) space->values.clear();
  for (const auto& loop : loops_) {
    loop->items.clear();
    loop->last_changed.reset();
    loop->scope.reset();
  }
}

Rendering Renderer::run(const OrderedJson& variables) {
  if (!variables.is_object()) trouble("the variables are not a JSON object");
  variables_ = Value::from_json(budget_, variables);
  Text out;
  out_ = &out;
  run(syntax_.statements);
  return {std::move(out.bytes), std::move(out.answers)};
}

void Renderer::put(const Value& value) {
  if (const Text* text = value.as_text()) {
    budget_.bytes(text->bytes.size());
    for (const ByteRange& span : text->answers) {
      out_->answers.push_back({out_->bytes.size() + span.begin, out_->bytes.size() + span.end});
    }
    out_->bytes += text->bytes;
  } else {
    out_->bytes += str(budget_, value);
  }
}

Value Renderer::capture(const Block& block, Flow& flow) {
  Text text;
  Text* const before = std::exchange(out_, &text);
  try {
    flow = run(block);
  } catch (...) {
    out_ = before;
    throw;
  }
  out_ = before;
  return Value(TextPtr(std::make_shared<const Text>(std::move(text))));
}

Value Renderer::filtered_capture(const Node& node, Flow& flow) {
  const InScope scope(*this, inner_scope());
  const Value text = capture(node.blocks[0], flow);
  if (node.subject == nullptr) return text;
  const Value* const before = std::exchange(captured_, &text);
  Value out = evaluate(*node.subject);
  captured_ = before;
  return out;
}

std::shared_ptr<Scope> Renderer::inner_scope() const {
  auto scope = std::make_shared<Scope>();
  scope->parent = scope_;
  return scope;
}

Renderer::Flow Renderer::run(const Block& block) {
  for (const auto& node : block) {
    if (const Flow flow = run(*node); flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Renderer::Flow Renderer::run(const Node& node) {
  line_ = node.line;
  budget_.step();
  const InDepth depth(budget_);
  Flow flow = Flow::kOn;
  switch (node.kind) {
    case Kind::kOutput:
      for (const auto& part : node.parts) put(evaluate(*part));
      return flow;
    case Kind::kIf:
      return run_if(node);
    case Kind::kFor:
      return run_for(node);
    case Kind::kSet:
      assign(*node.parts[0], evaluate(*node.parts[1]));
      return flow;
    case Kind::kSetBlock: {
      const Value text = filtered_capture(node, flow);
      if (flow == Flow::kOn) assign(*node.parts[0], text);
      return flow;
    }
    case Kind::kFilterBlock: {
      const Value text = filtered_capture(node, flow);
      if (flow == Flow::kOn) put(text);
      return flow;
    }
    case Kind::kMacro:
      scope_->set(node.name, make_macro(node));
      return flow;
    case Kind::kCallBlock:
      run_call_block(node);
      return flow;
    case Kind::kWith:
      return run_with(node);
    case Kind::kGeneration:
      run_generation(node);
      return flow;
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      return Flow::kContinue;
    default:
      put(evaluate(node));
      return flow;
  }
}

Renderer::Flow Renderer::run_if(const Node& node) {
  for (size_t i = 0; i < node.parts.size(); ++i) {
    if (evaluate(*node.parts[i]).truthy()) return run(node.blocks[i]);
  }
  return node.blocks.size() > node.parts.size() ? run(node.blocks.back()) : Flow::kOn;
}

Renderer::Flow Renderer::run_for(const Node& node) {
  return loop_over(node, iterate(budget_, evaluate(*node.parts[1])), scope_, 0);
}

/// Items for which the loop's condition holds; it may only read the loop's target.
std::vector<Value> Renderer::chosen(const Node& node, std::vector<Value> items) {
  if (node.parts[2] == nullptr) return items;
  std::vector<Value> out;
  for (const Value& item : items) {
    const InScope scope(*this, inner_scope());
    assign(*node.parts[0], item);
    if (evaluate(*node.parts[2]).truthy()) out.push_back(item);
  }
  return out;
}

Renderer::Flow Renderer::loop_over(const Node& node, std::vector<Value> items,
                                   const std::shared_ptr<Scope>& around, int depth) {
  const InScope outside(*this, around);
  items = chosen(node, std::move(items));
  if (items.empty()) {
    if (node.blocks.size() < 2) return Flow::kOn;
    const InScope inside(*this, inner_scope());
    return run(node.blocks[1]);
  }
  const auto loop = std::make_shared<LoopState>();
  loop->items = std::move(items);
  loop->depth = depth;
  if (node.recursive) {
    loop->recursive = &node;
    loop->scope = around;
  }
  loops_.push_back(loop);
  std::shared_ptr<Scope> scope;
  for (; loop->index < loop->items.size(); ++loop->index) {
    budget_.step();
    if (scope == nullptr || scope->kept || scope.use_count() > 1) scope = inner_scope();
    scope->variables.clear();
    scope->set("loop", Value(std::shared_ptr<LoopState>(loop)));
    const InScope inside(*this, scope);
    assign(*node.parts[0], loop->items[loop->index]);
    if (run(node.blocks[0]) == Flow::kBreak) break;
  }
  if (scope != nullptr && !scope->kept) scope->variables.clear();
  // Frees the loop's variables where only this list holds them, which is nearly always so.
  if (loop.use_count() == 2 && loops_.back() == loop) loops_.pop_back();
  return Flow::kOn;
}

Renderer::Flow Renderer::run_with(const Node& node) {
  std::vector<Value> values;
  for (size_t i = 1; i < node.parts.size(); i += 2) values.push_back(evaluate(*node.parts[i]));
  const InScope scope(*this, inner_scope());
  for (size_t i = 0; i < values.size(); ++i) assign(*node.parts[2 * i], values[i]);
  return run(node.blocks[0]);
}

void Renderer::run_call_block(const Node& node) {
  Value callee = evaluate(*node.subject->subject);
  Arguments arguments = arguments_of(*node.subject);
  arguments.named.emplace_back("caller", make_macro(node));
  line_ = node.line;
  put(call(callee, std::move(arguments)));
}

void Renderer::run_generation(const Node& node) {
  const size_t begin = out_->bytes.size();
  const InScope scope(*this, inner_scope());
  run(node.blocks[0]);
  auto& answers = out_->answers;
  while (!answers.empty() && answers.back().begin >= begin) answers.pop_back();  // within this one
  if (out_->bytes.size() > begin) answers.push_back({begin, out_->bytes.size()});
}

void Renderer::assign(const Node& target, const Value& value) {
  if (target.kind == Kind::kName) {
    scope_->set(target.name, value);
    return;
  }
  if (target.kind == Kind::kOfSpace) {
    const Value* found = scope_->find(target.name);
    Namespace* space = found != nullptr ? found->as_namespace() : nullptr;
    line_ = target.line;
    if (space == nullptr)
      trouble("'{}' is not a namespace, so it cannot be given '{}'", target.name,
              target.value.as_text()->bytes);
    const std::string& name = target.value.as_text()->bytes;
    if (name.starts_with('_')) trouble("a namespace cannot hold '{}', which begins with '_'", name);
    budget_.step(static_cast<int64_t>(space->values.size() / 32));
    budget_.bytes(sizeof(Value) + name.size());
    space->set(name, value);
    return;
  }
  const auto items = iterate(budget_, value);
  if (items.size() != target.parts.size()) {
    line_ = target.line;
    trouble("{} values are given to {} names", items.size(), target.parts.size());
  }
  for (size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], items[i]);
}

}  // namespace convoy::jinja
