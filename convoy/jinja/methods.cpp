#include "convoy/jinja/methods.h"

#include <algorithm>
#include <span>

#include "convoy/jinja/access.h"
#include "convoy/jinja/compare.h"

namespace convoy::jinja {

namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kTextMethods[] = {
    "capitalize",   "count",        "endswith",   "find",    "format",     "index",  "isalnum",
    "isalpha",      "isdigit",      "isspace",    "join",    "lower",      "lstrip", "partition",
    "removeprefix", "removesuffix", "replace",    "rfind",   "rpartition", "rsplit", "rstrip",
    "split",        "splitlines",   "startswith", "strip",   "title",      "upper",  "zfill",
    "ljust",        "rjust",        "center",     "islower", "isupper"};
// Methods of Python's texts that no template is known to use.
constexpr std::string_view kRefused[] = {
    "casefold",   "encode",       "expandtabs", "format_map",  "isascii",
    "isdecimal",  "isidentifier", "isnumeric",  "isprintable", "istitle",
    "maketrans",  "rindex",       "swapcase",   "translate",   "as_integer_ratio",
    "bit_length", "fromhex",      "is_integer", "hex"};
constexpr std::string_view kDictMethods[] = {"copy", "get", "items", "keys", "values"};
constexpr std::string_view kSequenceMethods[] = {"count", "index"};

bool has(Names names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value view(Budget& budget, const Dict& dict, Sequence::Kind kind) {
  std::vector<Value> items;
  for (const auto& [key, value] : dict.pairs()) {
    items.push_back(kind == Sequence::Kind::kKeys     ? key
                    : kind == Sequence::Kind::kValues ? value
                                                      : Value::tuple(budget, {key, value}));
  }
  return Value::sequence(budget, kind, std::move(items));
}

Value call_dict_method(Budget& budget, const Value& receiver, std::string_view name,
                       const Arguments& arguments) {
  const Dict& dict = *receiver.as_dict();
  if (name == "get") {
    if (!arguments.named.empty()) trouble("get() takes no argument by name");
    const auto given = bind("get()", arguments, {"key", "default"}, 1);
    const Value* found = dict.find(budget, *given[0]);
    return found != nullptr ? *found : given[1] != nullptr ? *given[1] : Value();
  }
  bind(name, arguments, {});
  if (name == "copy") return receiver;
  return view(budget, dict,
              name == "items"  ? Sequence::Kind::kItems
              : name == "keys" ? Sequence::Kind::kKeys
                               : Sequence::Kind::kValues);
}

Value call_sequence_method(Budget& budget, const Value& receiver, std::string_view name,
                           const Arguments& arguments) {
  const Value& wanted = *bind(name, arguments, {"value"}, 1)[0];
  int64_t count = 0, place = 0;
  for (const Value& item : receiver.as_sequence()->items) {
    const bool same = equal(budget, item, wanted);
    if (same && name == "index") return Value(place);
    count += same;
    ++place;
  }
  if (name == "index") trouble("index() does not find its value");
  return Value(count);
}

}  // namespace

bool has_method(const Value& value, std::string_view name) {
  if (value.as_text() != nullptr) return has(kTextMethods, name) || has(kRefused, name);
  if (value.as_dict() != nullptr) return has(kDictMethods, name);
  const Sequence* sequence = value.as_sequence();
  if (sequence == nullptr) return false;
  using Kind = Sequence::Kind;
  if (sequence->kind == Kind::kList && name == "copy") return true;
  return (sequence->kind == Kind::kList || sequence->kind == Kind::kTuple ||
          sequence->kind == Kind::kRange) &&
         has(kSequenceMethods, name);
}

bool is_refused_method(std::string_view name) {
  return has(kRefused, name);
}

Value call_method(Budget& budget, const Value& receiver, std::string_view name,
                  const Arguments& arguments) {
  budget.step();
  if (receiver.as_text() != nullptr) return call_text_method(budget, receiver, name, arguments);
  if (receiver.as_dict() != nullptr) return call_dict_method(budget, receiver, name, arguments);
  if (name == "copy") return receiver;
  return call_sequence_method(budget, receiver, name, arguments);
}

}  // namespace convoy::jinja
