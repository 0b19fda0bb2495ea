#include <ctime>

#include "convoy/jinja/access.h"
#include "convoy/jinja/methods.h"
#include "convoy/jinja/python_text.h"
#include "convoy/jinja/renderer.h"

// Part of Renderer: macros and the functions that every template has.
namespace convoy::jinja {

namespace {

constexpr int64_t kMaxRange = 100'000;  // jinja2's sandbox has the same

}  // namespace

Value Renderer::call(const Value& callee, Arguments arguments) {
  check_defined(callee);
  budget_.step();
  if (callee.as_loop() != nullptr) return call_loop(callee, arguments);
  const Callable* callable = callee.as_callable();
  if (callable == nullptr) trouble("a '{}' cannot be called", callee.type_name());
  switch (callable->kind) {
    case Callable::Kind::kMethod:
      return call_method(budget_, callable->receiver, callable->name, arguments);
    case Callable::Kind::kMacro:
      return call_macro(*callable, std::move(arguments));
    default:
      return call_function(callable->name, arguments);
  }
}

Value Renderer::make_macro(const Node& node) {
  auto macro = std::make_shared<Callable>();
  macro->kind = Callable::Kind::kMacro;
  macro->name = node.name;
  macro->macro = &node;
  macro->scope = scope_;
  macro->depth = 0;
  for (auto scope = scope_; scope != nullptr && !scope->kept; scope = scope->parent) {
    scope->kept = true;
    scopes_.push_back(scope);
  }
  return Value(CallablePtr(std::move(macro)));
}

Value Renderer::call_macro(const Callable& macro, Arguments arguments) {
  const Node& node = *macro.macro;
  const InDepth depth(budget_);
  const auto scope = std::make_shared<Scope>();
  scope->parent = macro.scope;
  const auto take = [&](std::string_view name) -> std::optional<Value> {
    for (auto it = arguments.named.begin(); it != arguments.named.end(); ++it) {
      if (it->first != name) continue;
      Value value = std::move(it->second);
      arguments.named.erase(it);
      return value;
    }
    return std::nullopt;
  };
  const size_t count = node.parameters.size(), given = arguments.positional.size();
  bool takes_caller = false;
  const InScope inside(*this, scope);
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = node.parameters[i];
    takes_caller |= name == "caller";
    if (i < given) {
      scope->set(name, arguments.positional[i]);
    } else if (auto value = take(name)) {
      scope->set(name, std::move(*value));
    } else if (const size_t first = count - node.parts.size(); i >= first) {
      scope->set(name, evaluate(*node.parts[i - first]));
    } else {
      scope->set(name, Value::undefined(fmt::format("the argument '{}' was not given", name)));
    }
  }
  if (node.uses_caller && !takes_caller) {
    auto caller = take("caller");
    scope->set("caller", caller ? std::move(*caller) : Value::undefined("there is no caller"));
  }
  if (node.uses_kwargs) {
    const auto rest = std::make_shared<Dict>();
    for (const auto& [name, value] : arguments.named) rest->set(budget_, Value::text(name), value);
    scope->set("kwargs", Value(DictPtr(rest)));
  } else if (!arguments.named.empty()) {
    trouble("the macro '{}' takes no argument '{}'", node.name, arguments.named.front().first);
  }
  if (node.uses_varargs) {
    std::vector<Value> rest;
    for (size_t i = count; i < given; ++i) rest.push_back(arguments.positional[i]);
    scope->set("varargs", Value::tuple(budget_, std::move(rest)));
  } else if (given > count) {
    trouble("the macro '{}' takes at most {} arguments; got {}", node.name, count, given);
  }
  Flow flow = Flow::kOn;
  return capture(node.blocks[0], flow);
}

Value Renderer::call_loop(const Value& callee, const Arguments& arguments) {
  LoopState& loop = *callee.as_loop();
  if (loop.recursive == nullptr) trouble("'loop' of a loop without 'recursive' cannot be called");
  const Value* items = bind("loop()", arguments, {"iterable"}, 1)[0];
  Text text;
  Text* const before = std::exchange(out_, &text);
  try {
    loop_over(*loop.recursive, iterate(budget_, *items), std::shared_ptr<Scope>(loop.scope),
              loop.depth + 1);
  } catch (...) {
    out_ = before;
    throw;
  }
  out_ = before;
  return Value(TextPtr(std::make_shared<const Text>(std::move(text))));
}

Value Renderer::call_function(std::string_view name, const Arguments& arguments) {
  if (name == "range") return make_range(arguments);
  if (name == "dict") return make_dict(arguments);
  if (name == "namespace") return make_namespace(arguments);
  if (name == "strftime_now") return time_text(arguments);
  const Value& message = *bind("raise_exception()", arguments, {"message"}, 1)[0];
  trouble("the template says: {}", str(budget_, message));
}

Value Renderer::make_dict(const Arguments& arguments) {
  const auto dict = std::make_shared<Dict>();
  if (arguments.positional.size() > 1) trouble("dict() takes at most one argument by place");
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (const Dict* other = from.as_dict()) {
      budget_.step(static_cast<int64_t>(other->size()));
      for (const auto& [key, value] : other->pairs()) dict->set(budget_, key, value);
    } else {
      for (const Value& item : iterate(budget_, from)) {
        const auto pair = iterate(budget_, item);
        if (pair.size() != 2) trouble("dict() takes pairs; got {} values", pair.size());
        dict->set(budget_, pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict->set(budget_, Value::text(name), value);
  return Value(DictPtr(dict));
}

Value Renderer::make_namespace(const Arguments& arguments) {
  const Value from = make_dict(arguments);
  auto space = std::make_shared<Namespace>();
  for (const auto& [key, value] : from.as_dict()->pairs()) {
    const std::string& name = need_text(key, "a name in namespace()");
    if (name.starts_with('_')) trouble("a namespace cannot hold '{}', which begins with '_'", name);
    space->values.emplace_back(name, value);
  }
  spaces_.push_back(space);
  return Value(std::move(space));
}

Value Renderer::make_range(const Arguments& arguments) {
  if (!arguments.named.empty()) trouble("range() takes no argument by name");
  const auto given = bind("range()", arguments, {"start", "stop", "step"}, 1);
  const auto bound = [](const Value* value) { return need_integer(*value, "what range() takes"); };
  const int64_t start = given[1] != nullptr ? bound(given[0]) : 0;
  const int64_t stop = bound(given[1] != nullptr ? given[1] : given[0]);
  const int64_t step = given[2] != nullptr ? bound(given[2]) : 1;
  if (step == 0) trouble("the step of range() is zero");
  constexpr int64_t kFar = int64_t{1} << 60;
  if (std::max({std::abs(start / 2), std::abs(stop / 2), std::abs(step / 2)}) > kFar / 2) {
    trouble("a range is too far");
  }
  const int64_t distance = step > 0 ? stop - start : start - stop;
  const int64_t size = std::abs(step);
  const int64_t count = distance > 0 ? (distance + size - 1) / size : 0;
  if (count > kMaxRange)
    trouble("a range has {} numbers; at most {} are allowed", count, kMaxRange);
  auto made = std::make_shared<Sequence>();
  made->kind = Sequence::Kind::kRange;
  made->start = start;
  made->stop = stop;
  made->step = step;
  budget_.step(count);
  budget_.bytes(static_cast<uint64_t>(count) * sizeof(Value));
  for (int64_t i = 0; i < count; ++i) made->items.emplace_back(start + i * step);
  return Value(SequencePtr(std::move(made)));
}

Value Renderer::time_text(const Arguments& arguments) const {
  const std::string& format =
      need_text(*bind("strftime_now()", arguments, {"format"}, 1)[0], "a format of time");
  if (!options_.now) trouble("it asks for the time with strftime_now(), which is not given");
  if (format.size() > 1000) trouble("a format of time has {} characters", format.size());
  if (format.find("%f") != std::string::npos) trouble("the format of time '%f' is not supported");
  // An empty text is told from a failure by the letter in front.
  std::string out(16384, '\0');
  const size_t size = std::strftime(out.data(), out.size(), ("x" + format).c_str(), &*options_.now);
  if (size == 0) trouble("a format of time gives too much text");
  return Value::text(out.substr(1, size - 1));
}

}  // namespace convoy::jinja
