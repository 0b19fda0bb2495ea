#include "convoy/jinja/checks.h"

#include "convoy/jinja/access.h"
#include "convoy/jinja/compare.h"
#include "convoy/jinja/filters.h"
#include "convoy/jinja/methods.h"
#include "convoy/jinja/operators.h"
#include "convoy/jinja/python_text.h"

namespace convoy::jinja {

namespace {

struct Check {
  std::string_view name;
  CheckFunction holds;
};

const Value& other(const Arguments& arguments) {
  return *bind("a test", arguments, {"other"}, 1)[0];
}

bool is_whole(const Value& value) {
  return value.as<int64_t>() != nullptr;
}
bool is_flag(const Value& value, bool wanted) {
  return value.as<bool>() != nullptr && *value.as<bool>() == wanted;
}

int64_t rest_of(Budget& budget, const Value& value, int64_t divisor) {
  const Value rest = apply(budget, Operator::kMod, value, Value(divisor));
  if (const double* real = rest.as<double>()) return *real == 0 ? 0 : *real == 1 ? 1 : 2;
  return need_integer(rest, "what a test takes");
}

/// Whether Python's iter() takes the value.
bool is_iterable(const Value& value) {
  return value.as_text() != nullptr || value.as_dict() != nullptr ||
         value.as_sequence() != nullptr || value.is_undefined() || value.as_loop() != nullptr;
}

/// Whether a value is a sequence to Jinja: it has a length and subscripts, as dicts do, too.
bool is_sequence(const Value& value) {
  using Kind = Sequence::Kind;
  const Sequence* found = value.as_sequence();
  if (found == nullptr)
    return value.as_text() != nullptr || value.as_dict() != nullptr || value.is_undefined();
  return found->kind == Kind::kList || found->kind == Kind::kTuple || found->kind == Kind::kRange;
}

bool is_same(const Value& value, const Value& wanted) {
  const bool* flag = wanted.as<bool>();
  if (flag != nullptr) return is_flag(value, *flag);
  if (wanted.is_none()) return value.is_none();
  trouble("the test 'sameas' is supported for true, false and none");
}

bool has_case(Budget& budget, const Value& value, const char* method) {
  const Value text = Value::text(str(budget, value));
  return *call_text_method(budget, text, method, {}).as<bool>();
}

bool is_equal(Budget& budget, const Value& value, const Arguments& arguments) {
  return equal(budget, value, other(arguments));
}

bool is_unequal(Budget& budget, const Value& value, const Arguments& arguments) {
  return !equal(budget, value, other(arguments));
}

bool is_less(Budget& budget, const Value& value, const Arguments& arguments) {
  return less(budget, value, other(arguments));
}

bool is_greater(Budget& budget, const Value& value, const Arguments& arguments) {
  return less(budget, other(arguments), value);
}

bool is_at_least(Budget& budget, const Value& value, const Arguments& arguments) {
  return is_greater(budget, value, arguments) || is_equal(budget, value, arguments);
}

bool is_at_most(Budget& budget, const Value& value, const Arguments& arguments) {
  return is_less(budget, value, arguments) || is_equal(budget, value, arguments);
}

bool is_any_number(const Value& value) {
  return is_whole(value) || value.as<double>() != nullptr || value.as<bool>() != nullptr;
}

bool is_divisible(Budget& budget, const Value& value, const Arguments& arguments) {
  return rest_of(budget, value, need_integer(other(arguments), "the divisor")) == 0;
}

// clang-format off
#define CONVOY_JINJA_CHECK(expression) \
  [](Budget& budget, const Value& value, const Arguments& arguments) -> bool { \
    (void)budget, (void)value, (void)arguments; return expression; }

const Check kChecks[] = {
    {"boolean", CONVOY_JINJA_CHECK(value.as<bool>() != nullptr)},
    {"callable", CONVOY_JINJA_CHECK(value.as_callable() != nullptr || value.is_undefined())},
    {"defined", CONVOY_JINJA_CHECK(!value.is_undefined())},
    {"undefined", CONVOY_JINJA_CHECK(value.is_undefined())},
    {"divisibleby", is_divisible},
    {"even", CONVOY_JINJA_CHECK(rest_of(budget, value, 2) == 0)},
    {"odd", CONVOY_JINJA_CHECK(rest_of(budget, value, 2) == 1)},
    {"==", is_equal},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"!=", is_unequal},
    {"ne", is_unequal},
    {">", is_greater},
    {"gt", is_greater},
    {"greaterthan", is_greater},
    {"<", is_less},
    {"lt", is_less},
    {"lessthan", is_less},
    {">=", is_at_least},
    {"ge", is_at_least},
    {"<=", is_at_most},
    {"le", is_at_most},
    {"escaped", CONVOY_JINJA_CHECK(value.as_text() != nullptr && value.as_text()->safe)},
    {"true", CONVOY_JINJA_CHECK(is_flag(value, true))},
    {"false", CONVOY_JINJA_CHECK(is_flag(value, false))},
    {"none", CONVOY_JINJA_CHECK(value.is_none())},
    {"filter", CONVOY_JINJA_CHECK(find_filter(need_text(value, "a filter")) != nullptr)},
    {"test", CONVOY_JINJA_CHECK(find_check(need_text(value, "a test")) != nullptr)},
    {"float", CONVOY_JINJA_CHECK(value.as<double>() != nullptr)},
    {"integer", CONVOY_JINJA_CHECK(is_whole(value))},
    {"number", CONVOY_JINJA_CHECK(is_any_number(value))},
    {"in", CONVOY_JINJA_CHECK(contains(budget, other(arguments), value))},
    {"iterable", CONVOY_JINJA_CHECK(is_iterable(value))},
    {"lower", CONVOY_JINJA_CHECK(has_case(budget, value, "islower"))},
    {"upper", CONVOY_JINJA_CHECK(has_case(budget, value, "isupper"))},
    {"mapping", CONVOY_JINJA_CHECK(value.as_dict() != nullptr)},
    {"sameas", CONVOY_JINJA_CHECK(is_same(value, other(arguments)))},
    {"sequence", CONVOY_JINJA_CHECK(is_sequence(value))},
    {"string", CONVOY_JINJA_CHECK(value.as_text() != nullptr)},
};
// clang-format on
#undef CONVOY_JINJA_CHECK

}  // namespace

CheckFunction find_check(std::string_view name) {
  for (const Check& check : kChecks) {
    if (check.name == name) return check.holds;
  }
  return nullptr;
}

}  // namespace convoy::jinja
