#include <algorithm>
#include <limits>

#include "convoy/jinja/access.h"
#include "convoy/jinja/format.h"
#include "convoy/jinja/methods.h"
#include "convoy/jinja/python_text.h"
#include "convoy/jinja/text_operations.h"
#include "convoy/jinja/unicode.h"

namespace convoy::jinja {

namespace {

const std::string* text_or_none(const Value* value, std::string_view what) {
  return value == nullptr || value->is_none() ? nullptr : &need_text(*value, what);
}

int64_t integer_or(const Value* value, int64_t otherwise, std::string_view what) {
  return value == nullptr ? otherwise : need_integer(*value, what);
}

Value texts(Budget& budget, const std::vector<std::string_view>& parts, const Text& of,
            Sequence::Kind kind = Sequence::Kind::kList) {
  budget.bytes(of.bytes.size() + 64 * parts.size());
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const auto part : parts) items.push_back(Value::text(std::string(part), of.safe));
  return Value::sequence(budget, kind, std::move(items));
}

/// Charges the budget for a search from the right, which may compare `wanted` at each place.
void pay_for_search(Budget& budget, std::string_view text, std::string_view wanted) {
  budget.step(static_cast<int64_t>(text.size() / 64 * (wanted.size() / 64)));
}

/// Whether the text begins or ends with the value, or with one of a tuple's.
bool has_end(const std::string& text, const Value& wanted, bool front) {
  if (wanted.is_sequence(Sequence::Kind::kTuple)) {
    const auto& items = wanted.as_sequence()->items;
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& item) { return has_end(text, item, front); });
  }
  const std::string& end =
      need_text(wanted, front ? "what startswith() takes" : "what endswith() takes");
  return front ? text.starts_with(end) : text.ends_with(end);
}

/// Characters [begin, end) that Python's find, index, rfind and count search.
std::string_view stretch(const std::string& text, const std::vector<const Value*>& given,
                         size_t& characters_before) {
  const auto count = static_cast<int64_t>(count_characters(text));
  const auto place = [&](const Value* value, int64_t otherwise) {
    const int64_t at =
        value == nullptr || value->is_none() ? otherwise : need_integer(*value, "a place");
    return std::clamp(at < 0 ? std::max(at, -count) + count : at, int64_t{0}, count);
  };
  const int64_t begin = place(given[1], 0), end = std::max(begin, place(given[2], count));
  characters_before = static_cast<size_t>(begin);
  const size_t from = byte_of_character(text, static_cast<size_t>(begin));
  const size_t to = byte_of_character(text, static_cast<size_t>(end));
  return std::string_view(text).substr(from, to - from);
}

Value find_in(Budget& budget, const Text& text, std::string_view name, const Arguments& arguments) {
  const auto given = bind(name, arguments, {"sub", "start", "end"}, 1);
  const std::string& wanted = need_text(*given[0], "what is looked for");
  size_t before = 0;
  const std::string_view within = stretch(text.bytes, given, before);
  if (name == "rfind") pay_for_search(budget, within, wanted);
  const size_t found = name == "rfind" ? within.rfind(wanted) : find_bytes(within, wanted);
  if (found == std::string_view::npos) {
    if (name == "index") trouble("index() does not find its text");
    return Value(int64_t{-1});
  }
  return Value(static_cast<int64_t>(before + count_characters(within.substr(0, found))));
}

Value count_in(const Text& text, const Arguments& arguments) {
  const auto given = bind("count()", arguments, {"sub", "start", "end"}, 1);
  const std::string& wanted = need_text(*given[0], "what is counted");
  size_t before = 0;
  const std::string_view within = stretch(text.bytes, given, before);
  if (wanted.empty()) return Value(static_cast<int64_t>(count_characters(within)) + 1);
  int64_t count = 0;
  for (size_t at = 0; (at = find_bytes(within, wanted, at)) != std::string_view::npos;) {
    at += wanted.size();
    ++count;
  }
  return Value(count);
}

Value split_text(Budget& budget, const Text& text, bool from_right, const Arguments& arguments) {
  const auto given = bind("split()", arguments, {"sep", "maxsplit"});
  const int64_t most = integer_or(given[1], -1, "maxsplit");
  const std::string* separator = text_or_none(given[0], "the separator of split()");
  if (separator != nullptr && separator->empty()) trouble("split() has an empty separator");
  if (separator != nullptr) pay_for_search(budget, text.bytes, *separator);
  return texts(budget, split_parts(text.bytes, separator, most, from_right), text);
}

Value partition(Budget& budget, const Text& text, bool from_right, const Arguments& arguments) {
  const std::string& separator =
      need_text(*bind("partition()", arguments, {"sep"}, 1)[0], "the separator");
  if (separator.empty()) trouble("partition() has an empty separator");
  const std::string_view whole = text.bytes;
  pay_for_search(budget, whole, separator);
  const size_t at = from_right ? whole.rfind(separator) : find_bytes(whole, separator);
  std::vector<std::string_view> parts;
  if (at != std::string_view::npos) {
    parts = {whole.substr(0, at), separator, whole.substr(at + separator.size())};
  } else if (from_right) {
    parts = {"", "", whole};
  } else {
    parts = {whole, "", ""};
  }
  return texts(budget, parts, text, Sequence::Kind::kTuple);
}

/// Evaluates isalpha(), isdigit() and others; refuses characters beyond ASCII whose class is not
/// known.
bool all_are(const Text& text, std::string_view name) {
  bool any = false;
  if (name == "islower" || name == "isupper") {
    const std::string low = lower(text.bytes), high = upper(text.bytes);
    return low != high && text.bytes == (name == "islower" ? low : high);
  }
  for (size_t at = 0; at < text.bytes.size();) {
    const char32_t c = next_character(text.bytes, at);
    any = true;
    if (name == "isspace") {
      if (!is_space(c)) return false;
      continue;
    }
    if (c >= 0x80) trouble("{}() of a text beyond ASCII is not supported", name);
    const bool digit = c >= '0' && c <= '9';
    const bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
    if (!(name == "isdigit" ? digit : name == "isalpha" ? letter : digit || letter)) return false;
  }
  return any;
}

Value pad(Budget& budget, const Text& text, std::string_view name, const Arguments& arguments) {
  const auto given = bind(name, arguments, {"width", "fillchar"}, 1);
  const std::string* fill = text_or_none(given[1], "the fill character");
  if (fill != nullptr && count_characters(*fill) != 1)
    trouble("{}() takes one fill character", name);
  const char align = name == "ljust" ? '<' : name == "rjust" ? '>' : '^';
  return Value::text(padded(budget, text.bytes, need_integer(*given[0], "the width"), align,
                            fill != nullptr ? *fill : " ", true),
                     text.safe);
}

Value zfill(Budget& budget, const Text& text, const Arguments& arguments) {
  const int64_t width = need_integer(*bind("zfill()", arguments, {"width"}, 1)[0], "the width");
  const bool sign = text.bytes.starts_with('-') || text.bytes.starts_with('+');
  const std::string head = text.bytes.substr(0, sign);
  const int64_t digits = std::max<int64_t>(width, 0) - (sign ? 1 : 0);
  return Value::text(head + padded(budget, text.bytes.substr(sign), digits, '>', "0"), text.safe);
}

}  // namespace

Value call_text_method(Budget& budget, const Value& receiver, std::string_view name,
                       const Arguments& arguments) {
  const Text& text = *receiver.as_text();
  budget.step(static_cast<int64_t>(text.bytes.size() / 64));
  const auto made = [&](std::string bytes) {
    budget.bytes(bytes.size());
    return Value::text(std::move(bytes), text.safe);
  };
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    return strip(budget, receiver,
                 text_or_none(bind(name, arguments, {"chars"})[0], "what strip() takes"),
                 name != "rstrip", name != "lstrip");
  }
  if (name == "split" || name == "rsplit") {
    return split_text(budget, text, name == "rsplit", arguments);
  }
  if (name == "startswith" || name == "endswith") {
    const auto given = bind(name, arguments, {"prefix", "start", "end"}, 1);
    size_t before = 0;
    const std::string within(stretch(text.bytes, given, before));
    return Value(has_end(within, *given[0], name == "startswith"));
  }
  if (name == "replace") {
    const auto given = bind("replace()", arguments, {"old", "new", "count"}, 2);
    std::string now = need_text(*given[1], "the new text of replace()");
    if (text.safe && !given[1]->as_text()->safe) now = escaped(budget, now);
    return Value::text(
        replaced(budget, text.bytes, need_text(*given[0], "the old text of replace()"), now,
                 integer_or(given[2], -1, "count")),
        text.safe);
  }
  if (name == "splitlines") {
    const auto given = bind("splitlines()", arguments, {"keepends"});
    return texts(budget, split_lines(text.bytes, given[0] != nullptr && given[0]->truthy()), text);
  }
  if (name == "join") {
    return join(budget, receiver, iterate(budget, *bind("join()", arguments, {"iterable"}, 1)[0]),
                true);
  }
  if (name == "find" || name == "rfind" || name == "index")
    return find_in(budget, text, name, arguments);
  if (name == "count") return count_in(text, arguments);
  if (name == "partition" || name == "rpartition") {
    return partition(budget, text, name == "rpartition", arguments);
  }
  if (name == "removeprefix" || name == "removesuffix") {
    const std::string& end = need_text(*bind(name, arguments, {"text"}, 1)[0], "what is removed");
    const bool front = name == "removeprefix";
    if (!(front ? text.bytes.starts_with(end) : text.bytes.ends_with(end))) return receiver;
    return made(front ? text.bytes.substr(end.size())
                      : text.bytes.substr(0, text.bytes.size() - end.size()));
  }
  if (name == "format") {
    if (text.safe) trouble("format() of a text behind the filter 'safe' is not supported");
    return Value::text(format_braces(budget, text.bytes, arguments));
  }
  if (name == "ljust" || name == "rjust" || name == "center")
    return pad(budget, text, name, arguments);
  if (name == "zfill") return zfill(budget, text, arguments);
  if (is_refused_method(name)) trouble("the method '{}' of texts is not supported", name);
  bind(name, arguments, {});
  if (name == "upper") return made(upper(text.bytes));
  if (name == "lower") return made(lower(text.bytes));
  if (name == "capitalize") return made(capitalize(text.bytes));
  if (name == "title") return made(title(text.bytes));
  return Value(all_are(text, name));
}

}  // namespace convoy::jinja
