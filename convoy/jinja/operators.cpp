#include "convoy/jinja/operators.h"

#include <cmath>
#include <limits>
#include <optional>

#include "convoy/jinja/access.h"
#include "convoy/jinja/format.h"
#include "convoy/jinja/text_operations.h"

namespace convoy::jinja {

namespace {

constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};

[[noreturn]] void no_operation(Operator op, const Value& a, const Value& b) {
  check_defined(a);
  check_defined(b);
  trouble("'{}' {} '{}' has no meaning", a.type_name(), kSymbols[static_cast<int>(op)],
          b.type_name());
}

[[noreturn]] void too_large() {
  trouble("a whole number does not fit into 64 bits");
}

int64_t power(int64_t base, int64_t exponent) {
  int64_t out = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(out, base, &out)) too_large();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) too_large();
  }
  return out;
}

Value integers(Operator op, int64_t a, int64_t b) {
  int64_t out = 0;
  if (b == 0 && (op == Operator::kDiv || op == Operator::kFloorDiv || op == Operator::kMod)) {
    trouble("division by zero");
  }
  switch (op) {
    case Operator::kAdd:
      if (__builtin_add_overflow(a, b, &out)) too_large();
      return Value(out);
    case Operator::kSub:
      if (__builtin_sub_overflow(a, b, &out)) too_large();
      return Value(out);
    case Operator::kMul:
      if (__builtin_mul_overflow(a, b, &out)) too_large();
      return Value(out);
    case Operator::kDiv: {
      // The 64-bit mantissa of long double holds both operands, so this rounds one more time at
      // most.
      return Value(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    }
    case Operator::kFloorDiv:
      if (a == std::numeric_limits<int64_t>::min() && b == -1) too_large();
      return Value(a / b - (a % b != 0 && (a % b < 0) != (b < 0)));
    case Operator::kMod: {
      if (b == -1) return Value(int64_t{0});
      const int64_t rest = a % b;
      return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
    }
    default:
      if (b >= 0) return Value(power(a, b));
      if (a == 0) trouble("division by zero");
      return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
}

Value floats(Operator op, double a, double b) {
  if (b == 0 && (op == Operator::kDiv || op == Operator::kFloorDiv || op == Operator::kMod)) {
    trouble("division by zero");
  }
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  switch (op) {
    case Operator::kAdd:
      return Value(a + b);
    case Operator::kSub:
      return Value(a - b);
    case Operator::kMul:
      return Value(a * b);
    case Operator::kDiv:
      return Value(a / b);
    case Operator::kFloorDiv:
      return Value(std::round((a - rest) / b));
    case Operator::kMod:
      return Value(rest == 0 ? std::copysign(0.0, b) : rest);
    default: {
      const double out = std::pow(a, b);
      if (std::isnan(out) && !std::isnan(a) && !std::isnan(b)) trouble("a power is no real number");
      if (a == 0 && b < 0) trouble("division by zero");
      return Value(out);
    }
  }
}

std::optional<double> as_float(const Value& value) {
  if (const double* number = value.as<double>()) return *number;
  if (const auto whole = as_integer(value)) return static_cast<double>(*whole);
  return std::nullopt;
}

Value add_texts(Budget& budget, const Value& a, const Value& b) {
  const bool safe = a.as_text()->safe || b.as_text()->safe;
  const auto part = [&](const Value& value) {
    return safe && !value.as_text()->safe ? Value::text(escaped(budget, value.as_text()->bytes))
                                          : value;
  };
  return concatenated(budget, {part(a), part(b)}, safe);
}

/// Repeats a text, list or tuple.
Value repeated(Budget& budget, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  if (const Text* text = value.as_text()) {
    uint64_t size = 0;
    if (__builtin_mul_overflow(text->bytes.size(), static_cast<uint64_t>(times), &size))
      too_large();
    budget.bytes(size);
    std::string out;
    out.reserve(size);
    if (!text->bytes.empty()) {
      for (int64_t i = 0; i < times; ++i) out += text->bytes;
    }
    return Value::text(std::move(out), text->safe);
  }
  const Sequence& sequence = *value.as_sequence();
  uint64_t size = 0;
  if (__builtin_mul_overflow(sizeof(Value) * sequence.items.size(), static_cast<uint64_t>(times),
                             &size)) {
    too_large();
  }
  budget.bytes(size);
  std::vector<Value> items;
  for (int64_t i = 0; i < times && !sequence.items.empty(); ++i) {
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  }
  return Value::sequence(budget, sequence.kind, std::move(items));
}

bool repeats(const Value& value) {
  return value.as_text() != nullptr || value.is_sequence(Sequence::Kind::kList) ||
         value.is_sequence(Sequence::Kind::kTuple);
}

}  // namespace

Value apply(Budget& budget, Operator op, const Value& a, const Value& b) {
  budget.step();
  const auto left = as_integer(a), right = as_integer(b);
  if (left && right) return integers(op, *left, *right);
  const auto x = as_float(a), y = as_float(b);
  if (x && y) return floats(op, *x, *y);
  if (op == Operator::kAdd && a.as_text() != nullptr && b.as_text() != nullptr) {
    return add_texts(budget, a, b);
  }
  if (op == Operator::kAdd && repeats(a) && a.as_text() == nullptr && b.as_sequence() != nullptr &&
      a.as_sequence()->kind == b.as_sequence()->kind) {
    std::vector<Value> items = a.as_sequence()->items;
    items.insert(items.end(), b.as_sequence()->items.begin(), b.as_sequence()->items.end());
    return Value::sequence(budget, a.as_sequence()->kind, std::move(items));
  }
  if (op == Operator::kMul && repeats(a) && right) return repeated(budget, a, *right);
  if (op == Operator::kMul && repeats(b) && left) return repeated(budget, b, *left);
  if (op == Operator::kMod && a.as_text() != nullptr) {
    if (a.as_text()->safe) trouble("'%' of a text behind the filter 'safe' is not supported");
    return Value::text(format_percent(budget, a.as_text()->bytes, b));
  }
  no_operation(op, a, b);
}

Value negative(const Value& a) {
  if (const double* number = a.as<double>()) return Value(-*number);
  const int64_t number = need_integer(a, "what '-' stands before");
  if (number == std::numeric_limits<int64_t>::min()) too_large();
  return Value(-number);
}

Value positive(const Value& a) {
  if (a.as<double>() != nullptr) return a;
  return Value(need_integer(a, "what '+' stands before"));
}

}  // namespace convoy::jinja
