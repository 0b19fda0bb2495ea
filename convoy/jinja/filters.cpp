#include "convoy/jinja/filters.h"

#include "convoy/jinja/access.h"
#include "convoy/jinja/text_operations.h"
#include "convoy/jinja/unicode.h"

namespace convoy::jinja {

FilterFunction find_filter(std::string_view name) {
  for (const auto table : {text_filters(), sequence_filters(), value_filters()}) {
    for (const Filter& filter : table) {
      if (filter.name == name) return filter.apply;
    }
  }
  return nullptr;
}

Value attribute_path(Budget& budget, const Value& value, const Value* path, bool ignore_case) {
  Value out = value;
  if (path != nullptr && !path->is_none()) {
    if (const Text* text = path->as_text()) {
      const std::string dot = ".";
      for (const auto part : split_parts(text->bytes, &dot, -1, false)) {
        const bool place = !part.empty() && part.size() < 10 &&
                           part.find_first_not_of("0123456789") == std::string_view::npos;
        out = item_of(budget, out,
                      place ? Value(static_cast<int64_t>(std::stol(std::string(part))))
                            : Value::text(std::string(part)));
      }
    } else {
      out = item_of(budget, out, *path);
    }
  }
  if (ignore_case && out.as_text() != nullptr) return Value::text(lower(out.as_text()->bytes));
  return out;
}

}  // namespace convoy::jinja
