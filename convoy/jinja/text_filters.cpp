#include <algorithm>

#include "convoy/jinja/access.h"
#include "convoy/jinja/filters.h"
#include "convoy/jinja/format.h"
#include "convoy/jinja/methods.h"
#include "convoy/jinja/python_text.h"
#include "convoy/jinja/text_operations.h"
#include "convoy/jinja/unicode.h"

namespace convoy::jinja {

namespace {

Value by_method(Budget& budget, const Value& value, const Arguments& arguments, const char* name) {
  bind(name, arguments, {});
  return call_text_method(budget, soft_text(budget, value), name, {});
}

Value upper_case(Budget& budget, const Value& value, const Arguments& arguments) {
  return by_method(budget, value, arguments, "upper");
}

Value lower_case(Budget& budget, const Value& value, const Arguments& arguments) {
  return by_method(budget, value, arguments, "lower");
}

Value capital_first(Budget& budget, const Value& value, const Arguments& arguments) {
  return by_method(budget, value, arguments, "capitalize");
}

Value trim(Budget& budget, const Value& value, const Arguments& arguments) {
  const Value* given = bind("trim", arguments, {"chars"})[0];
  const std::string* characters =
      given == nullptr || given->is_none() ? nullptr : &need_text(*given, "what 'trim' takes");
  return strip(budget, soft_text(budget, value), characters, true, true);
}

/// Jinja's title(): a word begins behind a space, a hyphen or an opening bracket.
Value title_of_words(Budget& budget, const Value& value, const Arguments& arguments) {
  bind("title", arguments, {});
  const Value whole = soft_text(budget, value);
  const std::string& text = whole.as_text()->bytes;
  budget.bytes(2 * text.size());
  const auto separates = [](char32_t c) {
    return is_space(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) !=
                                           std::string_view::npos);
  };
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    bool first = true;
    size_t head = at;
    while (at < text.size()) {
      size_t behind = at;
      if (separates(next_character(text, behind))) break;
      if (first) head = behind;
      first = false;
      at = behind;
    }
    out += upper(std::string_view(text).substr(begin, head - begin));
    out += lower(std::string_view(text).substr(head, at - head));
    if (at < text.size()) {
      const size_t gap = at;
      next_character(text, at);
      out += text.substr(gap, at - gap);
    }
  }
  return Value::text(std::move(out));
}

Value replace(Budget& budget, const Value& value, const Arguments& arguments) {
  const auto given = bind("replace", arguments, {"old", "new", "count"}, 2);
  const int64_t most =
      given[2] == nullptr || given[2]->is_none() ? -1 : need_integer(*given[2], "count");
  return Value::text(
      replaced(budget, str(budget, value), str(budget, *given[0]), str(budget, *given[1]), most));
}

Value indent(Budget& budget, const Value& value, const Arguments& arguments) {
  const auto given = bind("indent", arguments, {"width", "first", "blank"});
  const bool safe = value.as_text() != nullptr && value.as_text()->safe;
  const std::string text = need_text(value, "what 'indent' takes") + "\n";
  std::string space(4, ' ');
  if (given[0] != nullptr && given[0]->as_text() != nullptr) {
    space = given[0]->as_text()->bytes;
  } else if (given[0] != nullptr) {
    const int64_t width = std::max<int64_t>(need_integer(*given[0], "the width of 'indent'"), 0);
    budget.bytes(static_cast<uint64_t>(width));
    space = std::string(static_cast<size_t>(width), ' ');
  }
  const bool first = given[1] != nullptr && given[1]->truthy();
  const bool blank = given[2] != nullptr && given[2]->truthy();
  std::string out;
  bool begun = false;
  for (const auto line : split_lines(text, false)) {
    budget.bytes(space.size() + line.size() + 1);
    if (begun) out += "\n";
    if (begun ? blank || !line.empty() : first) out += space;
    out += line;
    begun = true;
  }
  return Value::text(std::move(out), safe);
}

Value truncate(Budget& budget, const Value& value, const Arguments& arguments) {
  const auto given = bind("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::string& text = need_text(value, "what 'truncate' takes");
  const int64_t most = given[0] != nullptr ? need_integer(*given[0], "the length") : 255;
  const std::string end = given[2] != nullptr ? need_text(*given[2], "the end") : "...";
  const int64_t leeway =
      given[3] != nullptr && !given[3]->is_none() ? need_integer(*given[3], "the leeway") : 5;
  const int64_t kept = most - static_cast<int64_t>(count_characters(end));
  if (kept < 0 || leeway < 0) trouble("'truncate' to {} characters is too short", most);
  if (static_cast<int64_t>(count_characters(text)) <= most + leeway) return value;
  std::string head = text.substr(0, byte_of_character(text, static_cast<size_t>(kept)));
  if (given[1] == nullptr || !given[1]->truthy()) {
    if (const size_t space = head.rfind(' '); space != std::string::npos) head.resize(space);
  }
  budget.bytes(head.size());
  return Value::text(head + end);
}

Value center(Budget& budget, const Value& value, const Arguments& arguments) {
  const Value* given = bind("center", arguments, {"width"})[0];
  const Value text = soft_text(budget, value);
  return Value::text(
      padded(budget, text.as_text()->bytes,
             given != nullptr ? need_integer(*given, "the width") : 80, '^', " ", true),
      text.as_text()->safe);
}

Value format(Budget& budget, const Value& value, const Arguments& arguments) {
  const Value text = soft_text(budget, value);
  if (text.as_text()->safe) trouble("'format' behind the filter 'safe' is not supported");
  if (arguments.named.empty()) {
    return Value::text(
        format_percent(budget, text.as_text()->bytes, Value::tuple(budget, arguments.positional)));
  }
  if (!arguments.positional.empty()) trouble("'format' takes arguments by place or by name");
  const auto dict = std::make_shared<Dict>();
  for (const auto& [name, each] : arguments.named) dict->set(budget, Value::text(name), each);
  return Value::text(format_percent(budget, text.as_text()->bytes, Value(DictPtr(dict))));
}

Value as_string(Budget& budget, const Value& value, const Arguments& arguments) {
  bind("string", arguments, {});
  return soft_text(budget, value);
}

Value safe(Budget& budget, const Value& value, const Arguments& arguments) {
  bind("safe", arguments, {});
  auto made = std::make_shared<Text>(Text{str(budget, value), true, {}});
  if (value.as_text() != nullptr) made->answers = value.as_text()->answers;
  return Value(TextPtr(std::move(made)));
}

Value escape(Budget& budget, const Value& value, const Arguments& arguments) {
  bind("escape", arguments, {});
  if (value.as_text() != nullptr && value.as_text()->safe) return value;
  return Value::text(escaped(budget, str(budget, value)), true);
}

Value force_escape(Budget& budget, const Value& value, const Arguments& arguments) {
  bind("forceescape", arguments, {});
  return Value::text(escaped(budget, str(budget, value)), true);
}

constexpr Filter kTable[] = {
    {"capitalize", capital_first},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"forceescape", force_escape},
    {"format", format},
    {"indent", indent},
    {"lower", lower_case},
    {"replace", replace},
    {"safe", safe},
    {"string", as_string},
    {"title", title_of_words},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", upper_case},
};

}  // namespace

std::span<const Filter> text_filters() {
  return kTable;
}

}  // namespace convoy::jinja
