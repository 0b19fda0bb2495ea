#include "convoy/jinja/access.h"
#include "convoy/jinja/compare.h"
#include "convoy/jinja/methods.h"
#include "convoy/jinja/operators.h"
#include "convoy/jinja/python_text.h"
#include "convoy/jinja/renderer.h"
#include "convoy/jinja/text_operations.h"

// Part of Renderer: expressions.
namespace convoy::jinja {

using Kind = Node::Kind;

namespace {

bool is_function(std::string_view name) {
  for (const char* known : {"range", "dict", "namespace", "raise_exception", "strftime_now"}) {
    if (name == known) return true;
  }
  return false;
}

bool holds(Budget& budget, CompareOperator comparison, const Value& a, const Value& b) {
  switch (comparison) {
    case CompareOperator::kEqual:
      return equal(budget, a, b);
    case CompareOperator::kNotEqual:
      return !equal(budget, a, b);
    case CompareOperator::kLess:
      return less(budget, a, b);
    case CompareOperator::kGreater:
      return less(budget, b, a);
    case CompareOperator::kLessEqual:
      return less(budget, a, b) || equal(budget, a, b);
    case CompareOperator::kGreaterEqual:
      return less(budget, b, a) || equal(budget, a, b);
    case CompareOperator::kIn:
      return contains(budget, b, a);
    default:
      return !contains(budget, b, a);
  }
}

}  // namespace

Value Renderer::evaluate(const Node& node) {
  line_ = node.line;
  budget_.step();
  const InDepth depth(budget_);
  switch (node.kind) {
    case Kind::kConstant:
      return node.value;
    case Kind::kName:
      return evaluate_name(node);
    case Kind::kList:
      return Value::list(budget_, evaluate_all(node.parts));
    case Kind::kTuple:
      return Value::tuple(budget_, evaluate_all(node.parts));
    case Kind::kDict:
      return evaluate_dict(node);
    case Kind::kAttribute:
      return attribute_of(budget_, evaluate(*node.subject), node.name);
    case Kind::kItem: {
      const Value subject = evaluate(*node.subject);
      return item_of(budget_, subject, evaluate(*node.parts[0]));
    }
    case Kind::kStretch:
      return evaluate_stretch(node);
    case Kind::kCall:
      return evaluate_call(node);
    case Kind::kFilter:
      return evaluate_filter(node);
    case Kind::kTest: {
      const Value subject = evaluate(*node.subject);
      const Arguments arguments = arguments_of(node);
      return Value(node.check(budget_, subject, arguments));
    }
    case Kind::kNot:
      return Value(!evaluate(*node.subject).truthy());
    case Kind::kNegative:
      return negative(evaluate(*node.subject));
    case Kind::kPositive:
      return positive(evaluate(*node.subject));
    case Kind::kAnd:
    case Kind::kOr: {
      Value value;
      for (const auto& part : node.parts) {
        value = evaluate(*part);
        if (value.truthy() == (node.kind == Kind::kOr)) break;
      }
      return value;
    }
    case Kind::kChoice:
      if (evaluate(*node.parts[0]).truthy()) return evaluate(*node.parts[1]);
      if (node.parts[2] != nullptr) return evaluate(*node.parts[2]);
      return Value::undefined(
          "an 'if' without an 'else' has no value, as its condition does not hold");
    case Kind::kCompare:
      return evaluate_compare(node);
    case Kind::kJoin: {
      std::vector<Value> texts = evaluate_all(node.parts);
      for (Value& text : texts) text = soft_text(budget_, text);
      return concatenated(budget_, texts);
    }
    case Kind::kBinary: {
      const Value left = evaluate(*node.parts[0]);
      return apply(budget_, node.op, left, evaluate(*node.parts[1]));
    }
    case Kind::kCaptured:
      return *captured_;
    default:
      trouble("a statement stands for a value");
  }
}

std::vector<Value> Renderer::evaluate_all(const std::vector<NodePtr>& nodes) {
  std::vector<Value> out;
  out.reserve(nodes.size());
  for (const auto& node : nodes) out.push_back(evaluate(*node));
  return out;
}

Value Renderer::evaluate_name(const Node& node) {
  budget_.step(static_cast<int64_t>(scope_->size() / 32));
  if (const Value* found = scope_->find(node.name)) return *found;
  if (const Value* found = variables_.as_dict()->find(node.name)) return *found;
  if (is_function(node.name)) {
    auto function = std::make_shared<Callable>();
    function->name = node.name;
    return Value(CallablePtr(std::move(function)));
  }
  return Value::undefined(fmt::format("'{}' is undefined", node.name));
}

Value Renderer::evaluate_dict(const Node& node) {
  const auto dict = std::make_shared<Dict>();
  for (size_t i = 0; i < node.parts.size(); i += 2) {
    const Value key = evaluate(*node.parts[i]);
    dict->set(budget_, key, evaluate(*node.parts[i + 1]));
  }
  return Value(DictPtr(dict));
}

Value Renderer::evaluate_stretch(const Node& node) {
  const Value subject = evaluate(*node.subject);
  Value bounds[3];
  const Value* given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (node.parts[i] == nullptr) continue;
    bounds[i] = evaluate(*node.parts[i]);
    given[i] = &bounds[i];
  }
  return stretch_of(budget_, subject, given[0], given[1], given[2]);
}

Value Renderer::evaluate_compare(const Node& node) {
  Value left = evaluate(*node.parts[0]);
  for (size_t i = 0; i < node.comparisons.size(); ++i) {
    Value right = evaluate(*node.parts[i + 1]);
    if (!holds(budget_, node.comparisons[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Renderer::evaluate_filter(const Node& node) {
  const Value subject = evaluate(*node.subject);
  const Arguments arguments = arguments_of(node);
  line_ = node.line;
  return node.filter(budget_, subject, arguments);
}

Arguments Renderer::arguments_of(const Node& node) {
  Arguments out;
  out.positional = evaluate_all(node.parts);
  for (const auto& [name, part] : node.named) out.named.emplace_back(name, evaluate(*part));
  if (node.star != nullptr) {
    for (Value& value : iterate(budget_, evaluate(*node.star)))
      out.positional.push_back(std::move(value));
  }
  if (node.star_star != nullptr) {
    const Value more = evaluate(*node.star_star);
    if (more.as_dict() == nullptr) trouble("'**' takes a dict; got '{}'", more.type_name());
    budget_.step(static_cast<int64_t>(more.as_dict()->size()));
    for (const auto& [key, value] : more.as_dict()->pairs()) {
      const std::string& name = need_text(key, "a name behind '**'");
      for (const auto& [other, there] : out.named) {
        if (other == name) trouble("the argument '{}' is given twice", name);
      }
      out.named.emplace_back(name, value);
    }
  }
  return out;
}

Value Renderer::evaluate_call(const Node& node) {
  const Node& subject = *node.subject;
  if (subject.kind == Kind::kAttribute) {
    const Value receiver = evaluate(*subject.subject);
    if (has_method(receiver, subject.name)) {
      const Arguments arguments = arguments_of(node);
      line_ = node.line;
      return call_method(budget_, receiver, subject.name, arguments);
    }
    if (receiver.as_loop() != nullptr && (subject.name == "cycle" || subject.name == "changed")) {
      Arguments arguments = arguments_of(node);
      line_ = node.line;
      LoopState& loop = *receiver.as_loop();
      if (subject.name == "changed") {
        bool same = loop.last_changed && loop.last_changed->size() == arguments.positional.size();
        for (size_t i = 0; same && i < arguments.positional.size(); ++i) {
          same = equal(budget_, (*loop.last_changed)[i], arguments.positional[i]);
        }
        loop.last_changed = std::move(arguments.positional);
        return Value(!same);
      }
      if (arguments.positional.empty()) trouble("loop.cycle() has nothing to go through");
      return arguments.positional[loop.index % arguments.positional.size()];
    }
    const Value callee = attribute_of(budget_, receiver, subject.name);
    Arguments arguments = arguments_of(node);
    line_ = node.line;
    return call(callee, std::move(arguments));
  }
  const Value callee = evaluate(subject);
  Arguments arguments = arguments_of(node);
  line_ = node.line;
  return call(callee, std::move(arguments));
}

}  // namespace convoy::jinja
