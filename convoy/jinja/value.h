#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "convoy/jinja/budget.h"

namespace convoy::jinja {

/// JSON whose objects keep the order of their keys.
using OrderedJson = nlohmann::ordered_json;

/// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

class Value;
struct Namespace;
struct LoopState;
struct Callable;

/// Name that nothing is known under, with the sentence that says so where it is used.
struct Undefined {
  std::string why;
};

/// Python's str as UTF-8. `safe` makes it markupsafe's Markup, which escapes what is added to it.
struct Text {
  std::string bytes;
  bool safe = false;
  std::vector<ByteRange> answers;  ///< parts made by {% generation %}
};

/// Python's list and whatever else is gone through in order. Nothing changes once it is made.
struct Sequence {
  enum class Kind { kList, kTuple, kRange, kKeys, kValues, kItems, kGenerator };
  Kind kind = Kind::kList;
  std::vector<Value> items;
  int depth = 1;
  int64_t start = 0, stop = 0, step = 1;  ///< of a range
  mutable bool used = false;              ///< a generator gives its items once
};

using Pair = std::pair<Value, Value>;

/// Python's dict: pairs in order of insertion.
class Dict {
 public:
  const std::vector<Pair>& pairs() const { return pairs_; }
  size_t size() const { return pairs_.size(); }
  /// Value under the key, or null. Throws Trouble for a key that Python cannot hash.
  const Value* find(Budget& budget, const Value& key) const;
  const Value* find(std::string_view key) const;
  /// Adds the pair, or changes the value of an equal key in its place.
  void set(Budget& budget, const Value& key, const Value& value);
  int depth() const { return depth_; }

 private:
  std::vector<Pair> pairs_;
  std::unordered_map<std::string_view, size_t> texts_;  ///< of keys that are texts
  int depth_ = 1;
};

struct None {};

using TextPtr = std::shared_ptr<const Text>;
using SequencePtr = std::shared_ptr<const Sequence>;
using DictPtr = std::shared_ptr<const Dict>;
using CallablePtr = std::shared_ptr<const Callable>;

/// Value of a template: Python's, without what may be changed, namespaces aside.
class Value {
 public:
  using Data = std::variant<None, bool, int64_t, double, std::shared_ptr<const Undefined>, TextPtr,
                            SequencePtr, DictPtr, std::shared_ptr<Namespace>,
                            std::shared_ptr<LoopState>, CallablePtr>;

  Value() = default;
  template <class T>
    requires std::is_constructible_v<Data, std::in_place_type_t<T>, T>
  explicit Value(T data) : data_(std::in_place_type<T>, std::move(data)) {}

  static Value text(std::string bytes, bool safe = false);
  static Value undefined(std::string why);
  static Value sequence(Budget& budget, Sequence::Kind kind, std::vector<Value> items);
  static Value list(Budget& budget, std::vector<Value> items);
  static Value tuple(Budget& budget, std::vector<Value> items);
  static Value generator(Budget& budget, std::vector<Value> items);
  /// Throws Trouble for numbers beyond 64 bits, for text that is not UTF-8 and for deep nesting.
  static Value from_json(Budget& budget, const OrderedJson& json);

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data_);
  }
  bool is_none() const { return as<None>() != nullptr; }
  bool is_undefined() const { return as<std::shared_ptr<const Undefined>>() != nullptr; }
  const Text* as_text() const { return pointer<TextPtr>(); }
  const Sequence* as_sequence() const { return pointer<SequencePtr>(); }
  const Dict* as_dict() const { return pointer<DictPtr>(); }
  Namespace* as_namespace() const { return pointer<std::shared_ptr<Namespace>>(); }
  LoopState* as_loop() const { return pointer<std::shared_ptr<LoopState>>(); }
  const Callable* as_callable() const { return pointer<CallablePtr>(); }
  const Undefined* as_undefined() const { return pointer<std::shared_ptr<const Undefined>>(); }
  bool is_sequence(Sequence::Kind kind) const {
    return as_sequence() != nullptr && as_sequence()->kind == kind;
  }

  /// Python's bool(value).
  bool truthy() const;
  /// Python's name of the type, as in its errors.
  const char* type_name() const;
  /// Levels of values within values.
  int depth() const;

 private:
  template <class P>
  auto pointer() const -> decltype(std::declval<const P&>().get()) {
    const P* found = as<P>();
    return found != nullptr ? found->get() : nullptr;
  }

  Data data_;
};

/// Values by name that a template may change: `namespace()`.
struct Namespace {
  std::vector<std::pair<std::string, Value>> values;

  const Value* find(std::string_view name) const;
  void set(std::string_view name, const Value& value);
};

inline constexpr int kMaxValueDepth = 200;

}  // namespace convoy::jinja
