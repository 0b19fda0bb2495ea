#include <algorithm>

#include "convoy/jinja/access.h"
#include "convoy/jinja/checks.h"
#include "convoy/jinja/compare.h"
#include "convoy/jinja/filters.h"
#include "convoy/jinja/operators.h"
#include "convoy/jinja/python_text.h"
#include "convoy/jinja/text_operations.h"
#include "convoy/jinja/unicode.h"

namespace convoy::jinja {

namespace {

bool is_true(const Value* value) {
  return value != nullptr && value->truthy();
}

Value to_list(Budget& budget, const Value& value, const Arguments& arguments) {
  bind("list", arguments, {});
  return Value::list(budget, iterate(budget, value));
}

Value length_of(Budget&, const Value& value, const Arguments& arguments) {
  bind("length", arguments, {});
  return Value(length(value));
}

Value first(Budget& budget, const Value& value, const Arguments& arguments) {
  bind("first", arguments, {});
  const auto items = iterate(budget, value);
  return items.empty() ? Value::undefined("no first item, sequence was empty") : items.front();
}

Value last(Budget& budget, const Value& value, const Arguments& arguments) {
  bind("last", arguments, {});
  if (value.is_sequence(Sequence::Kind::kGenerator))
    trouble("'last' of a generator; try 'list' first");
  const auto items = iterate(budget, value);
  return items.empty() ? Value::undefined("no last item, sequence was empty") : items.back();
}

Value reverse(Budget& budget, const Value& value, const Arguments& arguments) {
  bind("reverse", arguments, {});
  auto items = iterate(budget, value);
  std::reverse(items.begin(), items.end());
  if (value.as_text() != nullptr)
    return join(budget, Value::text("", value.as_text()->safe), items, true);
  return value.is_sequence(Sequence::Kind::kGenerator) ? Value::list(budget, std::move(items))
                                                       : Value::generator(budget, std::move(items));
}

Value join_filter(Budget& budget, const Value& value, const Arguments& arguments) {
  const auto given = bind("join", arguments, {"d", "attribute"});
  auto items = iterate(budget, value);
  if (given[1] != nullptr && !given[1]->is_none()) {
    for (Value& item : items) item = attribute_path(budget, item, given[1], false);
  }
  const Value separator = Value::text(given[0] != nullptr ? str(budget, *given[0]) : "");
  return join(budget, separator, items, false);
}

Value items_filter(Budget& budget, const Value& value, const Arguments& arguments) {
  bind("items", arguments, {});
  std::vector<Value> items;
  if (!value.is_undefined()) {
    if (value.as_dict() == nullptr) trouble("'items' takes a dict; got '{}'", value.type_name());
    for (const auto& [key, item] : value.as_dict()->pairs()) {
      items.push_back(Value::tuple(budget, {key, item}));
    }
  }
  return Value::generator(budget, std::move(items));
}

/// Sorts stably by keys, also in descending order.
std::vector<Value> sorted(Budget& budget, std::vector<Value> items, const std::vector<Value>& keys,
                          bool from_large) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return from_large ? less(budget, keys[b], keys[a]) : less(budget, keys[a], keys[b]);
  });
  std::vector<Value> out;
  out.reserve(items.size());
  for (const size_t i : order) out.push_back(std::move(items[i]));
  return out;
}

Value sort(Budget& budget, const Value& value, const Arguments& arguments) {
  const auto given = bind("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  auto items = iterate(budget, value);
  std::vector<Value> paths{Value()};
  if (given[2] != nullptr && given[2]->as_text() != nullptr) {
    paths.clear();
    const std::string comma = ",";
    for (const auto part : split_parts(given[2]->as_text()->bytes, &comma, -1, false)) {
      paths.push_back(Value::text(std::string(part)));
    }
  } else if (given[2] != nullptr) {
    paths = {*given[2]};
  }
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> parts;
    for (const Value& path : paths) {
      parts.push_back(attribute_path(budget, item, &path, !is_true(given[1])));
    }
    keys.push_back(Value::list(budget, std::move(parts)));
  }
  return Value::list(budget, sorted(budget, std::move(items), keys, is_true(given[0])));
}

Value dict_sort(Budget& budget, const Value& value, const Arguments& arguments) {
  const auto given = bind("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  check_defined(value);
  if (value.as_dict() == nullptr) trouble("'dictsort' takes a dict; got '{}'", value.type_name());
  const std::string by = given[1] != nullptr ? need_text(*given[1], "'by' of 'dictsort'") : "key";
  if (by != "key" && by != "value") trouble("'dictsort' sorts by 'key' or 'value'; got '{}'", by);
  std::vector<Value> items, keys;
  for (const auto& [key, item] : value.as_dict()->pairs()) {
    items.push_back(Value::tuple(budget, {key, item}));
    keys.push_back(attribute_path(budget, by == "key" ? key : item, nullptr, !is_true(given[0])));
  }
  return Value::list(budget, sorted(budget, std::move(items), keys, is_true(given[2])));
}

Value extreme(Budget& budget, const Value& value, const Arguments& arguments, bool largest) {
  const auto given = bind(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const auto items = iterate(budget, value);
  if (items.empty()) return Value::undefined("no aggregated item, sequence was empty");
  size_t best = 0;
  Value best_key = attribute_path(budget, items[0], given[1], !is_true(given[0]));
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = attribute_path(budget, items[i], given[1], !is_true(given[0]));
    if (largest ? less(budget, best_key, key) : less(budget, key, best_key)) {
      best = i;
      best_key = std::move(key);
    }
  }
  return items[best];
}

Value minimum(Budget& budget, const Value& value, const Arguments& arguments) {
  return extreme(budget, value, arguments, false);
}

Value maximum(Budget& budget, const Value& value, const Arguments& arguments) {
  return extreme(budget, value, arguments, true);
}

Value sum(Budget& budget, const Value& value, const Arguments& arguments) {
  const auto given = bind("sum", arguments, {"attribute", "start"});
  Value out = given[1] != nullptr ? *given[1] : Value(int64_t{0});
  if (out.as_text() != nullptr) trouble("'sum' does not add texts; try 'join'");
  for (const Value& item : iterate(budget, value)) {
    out = apply(budget, Operator::kAdd, out, attribute_path(budget, item, given[0], false));
  }
  return out;
}

Value unique(Budget& budget, const Value& value, const Arguments& arguments) {
  const auto given = bind("unique", arguments, {"case_sensitive", "attribute"});
  Dict seen;
  std::vector<Value> out;
  for (const Value& item : iterate(budget, value)) {
    const Value key = attribute_path(budget, item, given[1], !is_true(given[0]));
    if (seen.find(budget, key) != nullptr) continue;
    seen.set(budget, key, Value());
    out.push_back(item);
  }
  return Value::generator(budget, std::move(out));
}

Value map(Budget& budget, const Value& value, const Arguments& arguments) {
  std::vector<Value> out;
  if (!value.truthy()) return Value::generator(budget, {});
  if (arguments.positional.empty()) {
    const auto given = bind("map", arguments, {"attribute", "default"}, 1);
    for (const Value& item : iterate(budget, value)) {
      out.push_back(attribute_path(budget, item, given[0], false));
      if (given[1] != nullptr && !given[1]->is_none() && out.back().is_undefined())
        out.back() = *given[1];
    }
    return Value::generator(budget, std::move(out));
  }
  const std::string& name = need_text(arguments.positional[0], "the filter that 'map' takes");
  const FilterFunction filter = find_filter(name);
  if (filter == nullptr || filter == map) trouble("'map' does not know the filter '{}'", name);
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin());
  for (const Value& item : iterate(budget, value)) out.push_back(filter(budget, item, rest));
  return Value::generator(budget, std::move(out));
}

Value choose(Budget& budget, const Value& value, const Arguments& arguments, bool by_attribute,
             bool wanted) {
  if (!value.truthy()) return Value::generator(budget, {});
  Arguments rest = arguments;
  Value path;
  const auto take = [&] {
    Value taken = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
    return taken;
  };
  if (by_attribute) {
    if (rest.positional.empty()) trouble("'selectattr' and 'rejectattr' take an attribute");
    path = take();
  }
  CheckFunction check = nullptr;
  if (!rest.positional.empty()) {
    const Value name = take();
    check = find_check(need_text(name, "the test of 'select' and its like"));
    if (check == nullptr) trouble("there is no test '{}'", name.as_text()->bytes);
  }
  std::vector<Value> out;
  for (const Value& item : iterate(budget, value)) {
    const Value part = by_attribute ? attribute_path(budget, item, &path, false) : item;
    if ((check != nullptr ? check(budget, part, rest) : part.truthy()) == wanted)
      out.push_back(item);
  }
  return Value::generator(budget, std::move(out));
}

Value select(Budget& budget, const Value& value, const Arguments& arguments) {
  return choose(budget, value, arguments, false, true);
}

Value reject(Budget& budget, const Value& value, const Arguments& arguments) {
  return choose(budget, value, arguments, false, false);
}

Value select_attribute(Budget& budget, const Value& value, const Arguments& arguments) {
  return choose(budget, value, arguments, true, true);
}

Value reject_attribute(Budget& budget, const Value& value, const Arguments& arguments) {
  return choose(budget, value, arguments, true, false);
}

Value batch(Budget& budget, const Value& value, const Arguments& arguments) {
  const auto given = bind("batch", arguments, {"linecount", "fill_with"}, 1);
  const int64_t size = need_integer(*given[0], "the size of a batch");
  if (size < 1) trouble("batches of {} items", size);
  std::vector<Value> out, part;
  for (const Value& item : iterate(budget, value)) {
    if (static_cast<int64_t>(part.size()) == size) {
      out.push_back(Value::list(budget, std::move(part)));
      part.clear();
    }
    part.push_back(item);
  }
  if (!part.empty()) {
    if (given[1] != nullptr && !given[1]->is_none()) {
      budget.bytes(static_cast<uint64_t>(size) * sizeof(Value));
      part.resize(static_cast<size_t>(size), *given[1]);
    }
    out.push_back(Value::list(budget, std::move(part)));
  }
  return Value::generator(budget, std::move(out));
}

constexpr Filter kSequenceTable[] = {
    {"batch", batch},
    {"count", length_of},
    {"dictsort", dict_sort},
    {"first", first},
    {"items", items_filter},
    {"join", join_filter},
    {"last", last},
    {"length", length_of},
    {"list", to_list},
    {"map", map},
    {"max", maximum},
    {"min", minimum},
    {"reject", reject},
    {"rejectattr", reject_attribute},
    {"reverse", reverse},
    {"select", select},
    {"selectattr", select_attribute},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
};

}  // namespace

std::span<const Filter> sequence_filters() {
  return kSequenceTable;
}

}  // namespace convoy::jinja
