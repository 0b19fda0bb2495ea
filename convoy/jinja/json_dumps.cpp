#include "convoy/jinja/json_dumps.h"

#include <algorithm>
#include <cmath>

#include "convoy/jinja/access.h"
#include "convoy/jinja/compare.h"
#include "convoy/jinja/python_text.h"
#include "convoy/jinja/unicode.h"

namespace convoy::jinja {

namespace {

class Dumper {
 public:
  Dumper(Budget& budget, const DumpOptions& options) : budget_(budget), options_(options) {}

  void value(const Value& value, int level) {
    budget_.step();
    budget_.enter();
    if (value.is_none())
      put("null");
    else if (const bool* flag = value.as<bool>())
      put(*flag ? "true" : "false");
    else if (const int64_t* number = value.as<int64_t>())
      put(std::to_string(*number));
    else if (const double* real = value.as<double>())
      put(number_text(*real));
    else if (const Text* text = value.as_text())
      quoted(text->bytes);
    else if (const Dict* dict = value.as_dict())
      object(*dict, level);
    else if (value.is_sequence(Sequence::Kind::kList) ||
             value.is_sequence(Sequence::Kind::kTuple)) {
      array(*value.as_sequence(), level);
    } else {
      check_defined(value);
      trouble("a '{}' is not JSON", value.type_name());
    }
    budget_.leave();
  }

  std::string take() { return std::move(out_); }

 private:
  void put(std::string_view bytes) {
    budget_.bytes(bytes.size());
    out_ += bytes;
  }

  static std::string number_text(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return float_text(number);
  }

  void unit(uint32_t code) { put(fmt::format("\\u{:04x}", code)); }

  void quoted(std::string_view text) {
    put("\"");
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = next_character(text, at);
      switch (c) {
        case '"':
          put("\\\"");
          break;
        case '\\':
          put("\\\\");
          break;
        case '\n':
          put("\\n");
          break;
        case '\r':
          put("\\r");
          break;
        case '\t':
          put("\\t");
          break;
        case '\f':
          put("\\f");
          break;
        case '\b':
          put("\\b");
          break;
        default:
          if (c >= 0x20 && (c < 0x7F || !options_.ensure_ascii)) {
            put(text.substr(begin, at - begin));
          } else if (c < 0x10000) {
            unit(c);
          } else {
            unit(0xD800 + ((c - 0x10000) >> 10));
            unit(0xDC00 + ((c - 0x10000) & 0x3FF));
          }
      }
    }
    put("\"");
  }

  void line(int level) {
    if (!options_.indent) return;
    put("\n");
    for (int i = 0; i < level; ++i) put(*options_.indent);
  }

  void array(const Sequence& sequence, int level) {
    if (sequence.items.empty()) return put("[]");
    put("[");
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) put(options_.item_separator);
      line(level + 1);
      value(sequence.items[i], level + 1);
    }
    line(level);
    put("]");
  }

  static std::string key_text(const Value& key) {
    if (const Text* text = key.as_text()) return text->bytes;
    if (key.is_none()) return "null";
    if (const bool* flag = key.as<bool>()) return *flag ? "true" : "false";
    if (const int64_t* number = key.as<int64_t>()) return std::to_string(*number);
    if (const double* real = key.as<double>()) return number_text(*real);
    trouble("the key of a dict is a '{}', which JSON has not", key.type_name());
  }

  void object(const Dict& dict, int level) {
    if (dict.size() == 0) return put("{}");
    std::vector<const Pair*> pairs;
    for (const Pair& pair : dict.pairs()) pairs.push_back(&pair);
    if (options_.sort_keys) {
      std::stable_sort(pairs.begin(), pairs.end(), [&](const Pair* a, const Pair* b) {
        return less(budget_, a->first, b->first);
      });
    }
    put("{");
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (i > 0) put(options_.item_separator);
      line(level + 1);
      quoted(key_text(pairs[i]->first));
      put(options_.key_separator);
      value(pairs[i]->second, level + 1);
    }
    line(level);
    put("}");
  }

  Budget& budget_;
  const DumpOptions& options_;
  std::string out_;
};

}  // namespace

std::string json_dumps(Budget& budget, const Value& value, const DumpOptions& options) {
  Dumper dumper(budget, options);
  dumper.value(value, 0);
  return dumper.take();
}

}  // namespace convoy::jinja
