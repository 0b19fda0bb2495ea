#include "convoy/jinja/access.h"

#include <algorithm>
#include <limits>

#include "convoy/jinja/callable.h"
#include "convoy/jinja/loop_state.h"
#include "convoy/jinja/methods.h"
#include "convoy/jinja/python_text.h"
#include "convoy/jinja/unicode.h"

namespace convoy::jinja {

namespace {

Value missing(Budget& budget, const Value& value, const Value& key) {
  if (const Text* name = key.as_text()) {
    return Value::undefined(
        fmt::format("a '{}' has no attribute '{}'", value.type_name(), name->bytes.substr(0, 100)));
  }
  return Value::undefined(
      fmt::format("a '{}' has no item {}", value.type_name(), repr(budget, key).substr(0, 100)));
}

/// Method `name` of the value's type; nothing where there is none.
std::optional<Value> method_of(const Value& value, std::string_view name) {
  if (!has_method(value, name)) return std::nullopt;
  auto method = std::make_shared<Callable>();
  method->kind = Callable::Kind::kMethod;
  method->name = name;
  method->receiver = value;
  method->depth = value.depth() + 1;
  if (method->depth > kMaxValueDepth) trouble("values nest more than {} deep", kMaxValueDepth);
  return Value(CallablePtr(std::move(method)));
}

const Value* at(const std::vector<Value>& items, int64_t index) {
  const auto count = static_cast<int64_t>(items.size());
  if (index < 0) index += count;
  return index >= 0 && index < count ? &items[static_cast<size_t>(index)] : nullptr;
}

/// Item of Python's value[key]; nothing where that raises TypeError or LookupError.
std::optional<Value> subscript(Budget& budget, const Value& value, const Value& key) {
  if (const Dict* dict = value.as_dict()) {
    const Value* found = dict->find(budget, key);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  const auto index = as_integer(key);
  if (!index) return std::nullopt;
  if (const Text* text = value.as_text()) {
    budget.step(static_cast<int64_t>(text->bytes.size() / 256));
    const auto count = static_cast<int64_t>(count_characters(text->bytes));
    const int64_t place = *index < 0 ? *index + count : *index;
    if (place < 0 || place >= count) return std::nullopt;
    const size_t begin = byte_of_character(text->bytes, static_cast<size_t>(place));
    size_t end = begin;
    next_character(text->bytes, end);
    return Value::text(text->bytes.substr(begin, end - begin), text->safe);
  }
  using Kind = Sequence::Kind;
  const Sequence* sequence = value.as_sequence();
  if (sequence == nullptr || sequence->kind == Kind::kGenerator || sequence->kind == Kind::kKeys ||
      sequence->kind == Kind::kValues || sequence->kind == Kind::kItems) {
    return std::nullopt;
  }
  const Value* found = at(sequence->items, *index);
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

}  // namespace

void check_defined(const Value& value) {
  if (const Undefined* undefined = value.as_undefined()) trouble("{}", undefined->why);
}

std::vector<Value> iterate(Budget& budget, const Value& value) {
  std::vector<Value> out;
  if (const Sequence* sequence = value.as_sequence()) {
    if (sequence->kind == Sequence::Kind::kGenerator && std::exchange(sequence->used, true)) {
      return out;
    }
    budget.step(static_cast<int64_t>(sequence->items.size()));
    return sequence->items;
  }
  if (const Dict* dict = value.as_dict()) {
    budget.step(static_cast<int64_t>(dict->size()));
    for (const auto& pair : dict->pairs()) out.push_back(pair.first);
    return out;
  }
  if (const Text* text = value.as_text()) {
    budget.step(static_cast<int64_t>(text->bytes.size()));
    budget.bytes(64 * text->bytes.size());
    for (size_t place = 0; place < text->bytes.size();) {
      const size_t begin = place;
      next_character(text->bytes, place);
      out.push_back(Value::text(text->bytes.substr(begin, place - begin), text->safe));
    }
    return out;
  }
  if (value.is_undefined()) return out;
  trouble("a '{}' cannot be gone through", value.type_name());
}

int64_t length(const Value& value) {
  if (const Text* text = value.as_text())
    return static_cast<int64_t>(count_characters(text->bytes));
  if (const Dict* dict = value.as_dict()) return static_cast<int64_t>(dict->size());
  if (value.is_undefined()) return 0;
  const Sequence* sequence = value.as_sequence();
  if (sequence == nullptr || sequence->kind == Sequence::Kind::kGenerator) {
    trouble("a '{}' has no length", value.type_name());
  }
  return static_cast<int64_t>(sequence->items.size());
}

Value attribute_of(Budget& budget, const Value& value, std::string_view name) {
  check_defined(value);
  if (const Namespace* space = value.as_namespace()) {
    budget.step(static_cast<int64_t>(space->values.size() / 32));
    const Value* found = space->find(name);
    return found != nullptr ? *found : missing(budget, value, Value::text(std::string(name)));
  }
  if (const LoopState* loop = value.as_loop()) return loop->attribute(name);
  if (const auto method = method_of(value, name)) return *method;
  const Dict* dict = value.as_dict();
  const Value* found = dict != nullptr ? dict->find(name) : nullptr;
  return found != nullptr ? *found : missing(budget, value, Value::text(std::string(name)));
}

Value item_of(Budget& budget, const Value& value, const Value& key) {
  check_defined(value);
  budget.step();
  if (value.as_dict() != nullptr && !key.is_undefined()) {
    const Sequence* parts = key.as_sequence();
    if (key.as_dict() != nullptr || (parts != nullptr && parts->kind != Sequence::Kind::kTuple)) {
      return missing(budget, value, key);
    }
  }
  if (auto found = subscript(budget, value, key)) return *found;
  const Text* name = key.as_text();
  if (name == nullptr) return missing(budget, value, key);
  if (value.as_namespace() != nullptr || value.as_loop() != nullptr) {
    return attribute_of(budget, value, name->bytes);
  }
  if (const auto method = method_of(value, name->bytes)) return *method;
  return missing(budget, value, key);
}

Value stretch_of(Budget& budget, const Value& value, const Value* begin, const Value* end,
                 const Value* step) {
  check_defined(value);
  const Text* text = value.as_text();
  const Sequence* sequence = value.as_sequence();
  using Kind = Sequence::Kind;
  if (text == nullptr &&
      (sequence == nullptr || (sequence->kind != Kind::kList && sequence->kind != Kind::kTuple &&
                               sequence->kind != Kind::kRange))) {
    trouble("a '{}' cannot be cut with [:]", value.type_name());
  }
  const auto bound = [](const Value* given) -> std::optional<int64_t> {
    if (given == nullptr || given->is_none()) return std::nullopt;
    check_defined(*given);
    return need_integer(*given, "a bound of [:]");
  };
  const int64_t by = bound(step).value_or(1);
  if (by == 0) trouble("the step of [::] is zero");
  const int64_t count = length(value);
  // Clamps a bound of [a:b:c] as Python does.
  const auto place = [&](std::optional<int64_t> given, int64_t otherwise) {
    if (!given) return otherwise;
    const int64_t lowest = by < 0 ? -1 : 0, highest = by < 0 ? count - 1 : count;
    if (*given >= 0) return std::min(*given, highest);
    return std::max(*given < -count ? std::numeric_limits<int64_t>::min() : *given + count, lowest);
  };
  const int64_t first = place(bound(begin), by < 0 ? count - 1 : 0);
  const int64_t last = place(bound(end), by < 0 ? -1 : count);
  if (text != nullptr && by == 1) {
    budget.bytes(text->bytes.size());
    const size_t from = byte_of_character(text->bytes, static_cast<size_t>(first));
    const size_t to = byte_of_character(text->bytes, static_cast<size_t>(std::max(first, last)));
    return Value::text(text->bytes.substr(from, to - from), text->safe);
  }
  const std::vector<Value> items = text != nullptr ? iterate(budget, value) : sequence->items;
  std::vector<Value> out;
  for (int64_t i = first; by > 0 ? i < last : i > last;) {
    out.push_back(items[static_cast<size_t>(i)]);
    if (by > 0 ? by >= last - i : by <= last - i) break;
    i += by;
  }
  if (text != nullptr) {
    std::string joined;
    for (const Value& item : out) joined += item.as_text()->bytes;
    return Value::text(std::move(joined), text->safe);
  }
  if (sequence->kind == Kind::kTuple) return Value::tuple(budget, std::move(out));
  return Value::list(budget, std::move(out));
}

std::optional<int64_t> as_integer(const Value& value) {
  if (const int64_t* number = value.as<int64_t>()) return *number;
  if (const bool* flag = value.as<bool>()) return *flag ? 1 : 0;
  return std::nullopt;
}

int64_t need_integer(const Value& value, std::string_view what) {
  if (const auto number = as_integer(value)) return *number;
  check_defined(value);
  trouble("{} is a '{}'; expected a whole number", what, value.type_name());
}

const std::string& need_text(const Value& value, std::string_view what) {
  if (const Text* text = value.as_text()) return text->bytes;
  check_defined(value);
  trouble("{} is a '{}'; expected a text", what, value.type_name());
}

}  // namespace convoy::jinja
