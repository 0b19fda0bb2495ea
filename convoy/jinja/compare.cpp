#include "convoy/jinja/compare.h"

#include <algorithm>
#include <optional>

#include "convoy/jinja/access.h"
#include "convoy/jinja/callable.h"
#include "convoy/jinja/python_text.h"
#include "convoy/jinja/unicode.h"

namespace convoy::jinja {

namespace {

std::optional<int64_t> whole(const Value& value) {
  if (const bool* flag = value.as<bool>()) return *flag ? 1 : 0;
  if (const int64_t* number = value.as<int64_t>()) return *number;
  return std::nullopt;
}

bool is_number(const Value& value) {
  return whole(value) || value.as<double>() != nullptr;
}

/// Compares numbers: -1, 0 or 1; nothing where one is NaN or no number. Exact for all integers.
std::optional<int> compare_numbers(const Value& a, const Value& b) {
  const auto left = whole(a), right = whole(b);
  if (left && right) return *left < *right ? -1 : *left > *right;
  const long double x = left ? *left : *a.as<double>();
  const long double y = right ? *right : *b.as<double>();
  if (x != x || y != y) return std::nullopt;
  return x < y ? -1 : x > y;
}

bool same_order(const Sequence& a, const Sequence& b) {
  using Kind = Sequence::Kind;
  return a.kind == b.kind &&
         (a.kind == Kind::kList || a.kind == Kind::kTuple || a.kind == Kind::kRange);
}

bool equal_dicts(Budget& budget, const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.pairs()) {
    const Value* other = b.find(budget, key);
    if (other == nullptr || !equal(budget, value, *other)) return false;
  }
  return true;
}

}  // namespace

bool equal(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (is_number(a) && is_number(b)) return compare_numbers(a, b) == 0;
  const Text *left = a.as_text(), *right = b.as_text();
  if (left != nullptr && right != nullptr) {
    budget.step(static_cast<int64_t>(std::min(left->bytes.size(), right->bytes.size()) / 256));
    return left->bytes == right->bytes;
  }
  if (a.as_sequence() != nullptr && b.as_sequence() != nullptr) {
    const Sequence &x = *a.as_sequence(), &y = *b.as_sequence();
    if (&x == &y) return true;
    if (!same_order(x, y) || x.items.size() != y.items.size()) return false;
    for (size_t i = 0; i < x.items.size(); ++i) {
      if (!equal(budget, x.items[i], y.items[i])) return false;
    }
    return true;
  }
  if (a.as_dict() != nullptr && b.as_dict() != nullptr) {
    return equal_dicts(budget, *a.as_dict(), *b.as_dict());
  }
  if (a.is_none() || a.is_undefined()) {
    return a.is_none() ? b.is_none() : b.is_undefined();
  }
  if (a.as_namespace() != nullptr) return a.as_namespace() == b.as_namespace();
  if (a.as_loop() != nullptr) return a.as_loop() == b.as_loop();
  if (a.as_callable() != nullptr) return a.as_callable() == b.as_callable();
  return false;
}

bool less(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (is_number(a) && is_number(b)) return compare_numbers(a, b) == -1;
  if (a.as_text() != nullptr && b.as_text() != nullptr) {
    budget.step(static_cast<int64_t>(a.as_text()->bytes.size() / 256));
    return a.as_text()->bytes < b.as_text()->bytes;  // UTF-8 orders as its code points do
  }
  const Sequence *x = a.as_sequence(), *y = b.as_sequence();
  if (x != nullptr && y != nullptr && same_order(*x, *y) && x->kind != Sequence::Kind::kRange) {
    for (size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
      if (!equal(budget, x->items[i], y->items[i])) return less(budget, x->items[i], y->items[i]);
    }
    return x->items.size() < y->items.size();
  }
  check_defined(a);
  check_defined(b);
  trouble("'{}' and '{}' have no order", a.type_name(), b.type_name());
}

bool contains(Budget& budget, const Value& container, const Value& item) {
  budget.step();
  if (const Text* text = container.as_text()) {
    if (item.as_text() == nullptr) {
      check_defined(item);
      trouble("'in' of a text takes a text; got '{}'", item.type_name());
    }
    budget.step(static_cast<int64_t>(text->bytes.size() / 256));
    return find_bytes(text->bytes, item.as_text()->bytes) != std::string::npos;
  }
  if (const Dict* dict = container.as_dict()) return dict->find(budget, item) != nullptr;
  for (const Value& each : iterate(budget, container)) {
    if (equal(budget, each, item)) return true;
  }
  return false;
}

void check_hashable(Budget& budget, const Value& key) {
  budget.step();
  const Sequence* sequence = key.as_sequence();
  if (key.as_dict() != nullptr ||
      (sequence != nullptr && sequence->kind != Sequence::Kind::kTuple &&
       sequence->kind != Sequence::Kind::kRange)) {
    trouble("a '{}' cannot be the key of a dict", key.type_name());
  }
  if (sequence != nullptr) {
    for (const Value& item : sequence->items) check_hashable(budget, item);
  }
}

}  // namespace convoy::jinja
