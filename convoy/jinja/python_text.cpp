#include "convoy/jinja/python_text.h"

#include <charconv>
#include <cmath>

#include "convoy/jinja/callable.h"
#include "convoy/jinja/unicode.h"

namespace convoy::jinja {

namespace {

/// Writes a value into one growing text, so that deep ones are copied once.
class Writer {
 public:
  explicit Writer(Budget& budget) : budget_(budget) {}

  void put(std::string_view bytes) {
    budget_.bytes(bytes.size());
    out_ += bytes;
  }

  void text(const Text& text) {
    const bool has_single = text.bytes.find('\'') != std::string::npos;
    const char quote = has_single && text.bytes.find('"') == std::string::npos ? '"' : '\'';
    if (text.safe) put("Markup(");
    put(std::string_view(&quote, 1));
    for (size_t at = 0; at < text.bytes.size();) {
      const size_t begin = at;
      const char32_t c = next_character(text.bytes, at);
      if (c == static_cast<char32_t>(quote) || c == '\\') {
        put("\\");
        put(text.bytes.substr(begin, 1));
      } else if (c == '\n' || c == '\r' || c == '\t') {
        put(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
      } else if (is_printable(c)) {
        put(std::string_view(text.bytes).substr(begin, at - begin));
      } else {
        put(c < 0x100     ? fmt::format("\\x{:02x}", static_cast<uint32_t>(c))
            : c < 0x10000 ? fmt::format("\\u{:04x}", static_cast<uint32_t>(c))
                          : fmt::format("\\U{:08x}", static_cast<uint32_t>(c)));
      }
    }
    put(std::string_view(&quote, 1));
    if (text.safe) put(")");
  }

  void items(const Sequence& sequence, const char* open, const char* close) {
    put(open);
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) put(", ");
      value(sequence.items[i]);
    }
    if (sequence.kind == Sequence::Kind::kTuple && sequence.items.size() == 1) put(",");
    put(close);
  }

  void sequence(const Sequence& sequence) {
    switch (sequence.kind) {
      case Sequence::Kind::kList:
        return items(sequence, "[", "]");
      case Sequence::Kind::kTuple:
        return items(sequence, "(", ")");
      case Sequence::Kind::kKeys:
        return items(sequence, "dict_keys([", "])");
      case Sequence::Kind::kValues:
        return items(sequence, "dict_values([", "])");
      case Sequence::Kind::kItems:
        return items(sequence, "dict_items([", "])");
      case Sequence::Kind::kRange: {
        return put(sequence.step == 1 ? fmt::format("range({}, {})", sequence.start, sequence.stop)
                                      : fmt::format("range({}, {}, {})", sequence.start,
                                                    sequence.stop, sequence.step));
      }
      default:
        trouble("it prints a generator; try the filter 'list'");
    }
  }

  void dict(const Dict& dict) {
    put("{");
    for (size_t i = 0; i < dict.size(); ++i) {
      if (i > 0) put(", ");
      value(dict.pairs()[i].first);
      put(": ");
      value(dict.pairs()[i].second);
    }
    put("}");
  }

  void value(const Value& value) {
    budget_.step();
    budget_.enter();
    if (value.is_none())
      put("None");
    else if (const bool* flag = value.as<bool>())
      put(*flag ? "True" : "False");
    else if (const int64_t* number = value.as<int64_t>())
      put(std::to_string(*number));
    else if (const double* real = value.as<double>())
      put(float_text(*real));
    else if (value.as_text() != nullptr)
      text(*value.as_text());
    else if (value.as_sequence() != nullptr)
      sequence(*value.as_sequence());
    else if (value.as_dict() != nullptr)
      dict(*value.as_dict());
    else if (value.is_undefined())
      put("Undefined");
    else if (const Namespace* space = value.as_namespace()) {
      put("<Namespace {");
      for (size_t i = 0; i < space->values.size(); ++i) {
        if (i > 0) put(", ");
        text({space->values[i].first, false, {}});
        put(": ");
        this->value(space->values[i].second);
      }
      put("}>");
    } else if (const Callable* callable = value.as_callable();
               callable != nullptr && callable->kind == Callable::Kind::kMacro) {
      put("<Macro ");
      text({callable->name, false, {}});
      put(">");
    } else {
      trouble("it prints a {}, which has no text of its own", value.type_name());
    }
    budget_.leave();
  }

  std::string take() { return std::move(out_); }

 private:
  Budget& budget_;
  std::string out_;
};

}  // namespace

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::scientific);
  std::string_view made(buffer, static_cast<size_t>(end.ptr - buffer));
  std::string out;
  if (made[0] == '-') {
    out = "-";
    made.remove_prefix(1);
  }
  const size_t e = made.find('e');
  int exponent = 0;
  const bool plus = made[e + 1] == '+';
  std::from_chars(made.data() + e + 1 + plus, made.data() + made.size(), exponent);
  std::string digits(made.substr(0, 1));
  if (e > 2) digits += made.substr(2, e - 2);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (count > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) {
    return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  return out + digits.substr(0, static_cast<size_t>(exponent + 1)) + "." +
         digits.substr(static_cast<size_t>(exponent + 1));
}

std::string repr(Budget& budget, const Value& value) {
  Writer writer(budget);
  writer.value(value);
  return writer.take();
}

std::string str(Budget& budget, const Value& value) {
  if (const Text* text = value.as_text()) {
    budget.bytes(text->bytes.size());
    return text->bytes;
  }
  if (value.is_undefined()) return "";
  return repr(budget, value);
}

Value soft_text(Budget& budget, const Value& value) {
  return value.as_text() != nullptr ? value : Value::text(str(budget, value));
}

}  // namespace convoy::jinja
