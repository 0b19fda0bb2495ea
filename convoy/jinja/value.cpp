#include "convoy/jinja/value.h"

#include <limits>

#include "convoy/base/text.h"
#include "convoy/jinja/callable.h"
#include "convoy/jinja/compare.h"

namespace convoy::jinja {

namespace {

void check_depth(int depth) {
  if (depth > kMaxValueDepth) trouble("values nest more than {} deep", kMaxValueDepth);
}

Value from_json_at(Budget& budget, const OrderedJson& json, int depth) {
  check_depth(depth);
  budget.step();
  switch (json.type()) {
    case OrderedJson::value_t::null:
      return Value();
    case OrderedJson::value_t::boolean:
      return Value(json.get_ref<const bool&>());
    case OrderedJson::value_t::number_integer:
      return Value(json.get_ref<const OrderedJson::number_integer_t&>());
    case OrderedJson::value_t::number_unsigned: {
      const uint64_t number = json.get_ref<const OrderedJson::number_unsigned_t&>();
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        trouble("the data hold {}, which does not fit into 64 bits", number);
      }
      return Value(static_cast<int64_t>(number));
    }
    case OrderedJson::value_t::number_float:
      return Value(json.get_ref<const OrderedJson::number_float_t&>());
    case OrderedJson::value_t::string: {
      const auto& bytes = json.get_ref<const std::string&>();
      if (!is_utf8(bytes)) trouble("the data hold text that is not UTF-8");
      budget.bytes(bytes.size());
      return Value::text(bytes);
    }
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json_at(budget, item, depth + 1));
      return Value::list(budget, std::move(items));
    }
    case OrderedJson::value_t::object: {
      const auto dict = std::make_shared<Dict>();
      for (const auto& [key, item] : json.items()) {
        if (!is_utf8(key)) trouble("the data hold a key that is not UTF-8");
        dict->set(budget, Value::text(key), from_json_at(budget, item, depth + 1));
      }
      return Value(DictPtr(dict));
    }
    default:
      trouble("the data hold bytes, for which templates have no type");
  }
}

}  // namespace

Value Value::text(std::string bytes, bool safe) {
  return Value(TextPtr(std::make_shared<const Text>(Text{std::move(bytes), safe, {}})));
}

Value Value::undefined(std::string why) {
  return Value(std::shared_ptr<const Undefined>(
      std::make_shared<const Undefined>(Undefined{std::move(why)})));
}

Value Value::sequence(Budget& budget, Sequence::Kind kind, std::vector<Value> items) {
  budget.step(1 + static_cast<int64_t>(items.size()));
  budget.bytes(sizeof(Value) * items.size());
  auto made = std::make_shared<Sequence>();
  made->kind = kind;
  for (const Value& item : items) made->depth = std::max(made->depth, item.depth() + 1);
  check_depth(made->depth);
  made->items = std::move(items);
  return Value(SequencePtr(std::move(made)));
}

Value Value::list(Budget& budget, std::vector<Value> items) {
  return sequence(budget, Sequence::Kind::kList, std::move(items));
}

Value Value::tuple(Budget& budget, std::vector<Value> items) {
  return sequence(budget, Sequence::Kind::kTuple, std::move(items));
}

Value Value::generator(Budget& budget, std::vector<Value> items) {
  return sequence(budget, Sequence::Kind::kGenerator, std::move(items));
}

Value Value::from_json(Budget& budget, const OrderedJson& json) {
  return from_json_at(budget, json, 0);
}

bool Value::truthy() const {
  if (const bool* flag = as<bool>()) return *flag;
  if (const int64_t* number = as<int64_t>()) return *number != 0;
  if (const double* number = as<double>()) return *number != 0;
  if (const Text* found = as_text()) return !found->bytes.empty();
  if (const Dict* dict = as_dict()) return dict->size() > 0;
  if (const Sequence* found = as_sequence()) {
    return found->kind == Sequence::Kind::kGenerator || !found->items.empty();
  }
  return !is_none() && !is_undefined();
}

const char* Value::type_name() const {
  if (is_none()) return "NoneType";
  if (as<bool>() != nullptr) return "bool";
  if (as<int64_t>() != nullptr) return "int";
  if (as<double>() != nullptr) return "float";
  if (const Text* found = as_text()) return found->safe ? "Markup" : "str";
  if (as_dict() != nullptr) return "dict";
  if (as_namespace() != nullptr) return "Namespace";
  if (as_loop() != nullptr) return "LoopContext";
  if (is_undefined()) return "Undefined";
  if (as_callable() != nullptr) return "function";
  switch (as_sequence()->kind) {
    case Sequence::Kind::kList:
      return "list";
    case Sequence::Kind::kTuple:
      return "tuple";
    case Sequence::Kind::kRange:
      return "range";
    case Sequence::Kind::kKeys:
      return "dict_keys";
    case Sequence::Kind::kValues:
      return "dict_values";
    case Sequence::Kind::kItems:
      return "dict_items";
    default:
      return "generator";
  }
}

int Value::depth() const {
  if (const Sequence* found = as_sequence()) return found->depth;
  if (const Dict* dict = as_dict()) return dict->depth();
  if (const Callable* callable = as_callable()) return callable->depth;
  return 0;
}

const Value* Dict::find(std::string_view key) const {
  const auto found = texts_.find(key);
  return found != texts_.end() ? &pairs_[found->second].second : nullptr;
}

const Value* Dict::find(Budget& budget, const Value& key) const {
  if (const Text* text = key.as_text()) {
    budget.step(static_cast<int64_t>(text->bytes.size() / 256));
    return find(text->bytes);
  }
  check_hashable(budget, key);
  for (const auto& [mine, value] : pairs_) {
    if (mine.as_text() == nullptr && equal(budget, mine, key)) return &value;
  }
  return nullptr;
}

void Dict::set(Budget& budget, const Value& key, const Value& value) {
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  check_depth(depth_);
  budget.bytes(2 * sizeof(Value));
  if (const Value* there = find(budget, key)) {
    const_cast<Value&>(*there) = value;  // a pair of this dict's own
    return;
  }
  pairs_.emplace_back(key, value);
  if (const Text* text = key.as_text()) texts_.emplace(text->bytes, pairs_.size() - 1);
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [mine, value] : values) {
    if (mine == name) return &value;
  }
  return nullptr;
}

void Namespace::set(std::string_view name, const Value& value) {
  for (auto& [mine, old] : values) {
    if (mine == name) {
      old = value;
      return;
    }
  }
  values.emplace_back(name, value);
}

}  // namespace convoy::jinja
