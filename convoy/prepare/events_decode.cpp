#include "convoy/prepare/events_decode.h"

#include <arrow/builder.h>
#include <arrow/csv/options.h>
#include <arrow/memory_pool.h>
#include <arrow/type.h>
#include <arrow/util/float16.h>
#include <arrow/util/value_parsing.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/arrow_types.h"

namespace convoy::prepare {
namespace {

using data::with_fractions;
using data::with_integers;

[[noreturn]] void wrong_type(const arrow::Array& array, const ColumnPlace& place,
                             const char* expected, const std::string& advice) {
  fail<FileError>("prepare", "column '{}' in {} is {}; expected {}; try {}", place.column,
                  place.file, array.type()->ToString(), expected, advice);
}

std::string place_of(const ColumnPlace& place, int64_t i) {
  return fmt::format("column '{}', row {} of {}", place.column, place.first_row + i, place.file);
}

bool parse_instant(std::string_view text, arrow::TimeUnit::type unit, int64_t& ticks) {
  return arrow::internal::ParseTimestampISO8601(text.data(), text.size(), unit, &ticks);
}

TimeText kind_of(std::string_view text) {
  double number = 0;
  int64_t instant = 0;
  if (parse_number(text, number)) return TimeText::kNumber;
  for (const auto unit : {arrow::TimeUnit::SECOND, arrow::TimeUnit::MICRO, arrow::TimeUnit::NANO}) {
    if (parse_instant(text, unit, instant)) return TimeText::kInstant;
  }
  return TimeText::kNeither;
}

using Texts = std::vector<std::optional<std::string>>;

/// Finds the kind of a text column's times: that of `first`, or else that of its first entry.
/// Throws FileError that names the first entry that is no time, or not of this kind.
void find_kind(const Texts& texts, const ColumnPlace& place, std::optional<TimeText>& first) {
  int64_t odd = -1;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i]) continue;
    const TimeText kind = kind_of(*texts[i]);
    if (!first && kind != TimeText::kNeither) first = kind;
    if (kind == TimeText::kNeither || (kind != *first && odd < 0)) odd = static_cast<int64_t>(i);
    if (kind == TimeText::kNeither) break;
  }
  if (odd < 0) return;
  fail<FileError>(
      "prepare",
      "{} holds '{}'; expected a number or a timestamp like 2024-01-31T12:00:00, of one "
      "kind in the whole column; try to mend it, or {}",
      place_of(place, odd), *texts[static_cast<size_t>(odd)], place.flag);
}

/// Calls `value` with every entry of an array of a known type, and `missing` for each null.
template <class Value>
auto each(const std::function<void()>& missing, Value value) {
  return [&missing, value](const auto& typed) {
    for (int64_t i = 0; i < typed.length(); ++i) {
      typed.IsNull(i) ? missing() : value(typed.GetView(i));
    }
  };
}

/// Calls `missing` for each entry of an array of nulls. Throws FileError for an array of an unknown
/// type.
void each_null(const arrow::Array& array, const ColumnPlace& place, const char* expected,
               const std::string& advice, const std::function<void()>& missing) {
  if (array.type_id() != arrow::Type::NA) wrong_type(array, place, expected, advice);
  for (int64_t i = 0; i < array.length(); ++i) missing();
}

void must(const arrow::Status& status) {
  internal_check(status.ok(), "prepare", "{}", status.ToString());
}

/// Converts a decimal array (NUMERIC of databases, whose values may be whole whatever the scale) to
/// whole numbers where all are whole and fit, else to texts. Null for another type.
std::shared_ptr<arrow::Array> of_decimals(const arrow::Array& array) {
  arrow::StringBuilder texts;
  arrow::Int64Builder numbers;
  bool whole = true;
  const auto take = [&](const auto& typed) {
    for (int64_t i = 0; i < typed.length(); ++i) {
      if (typed.IsNull(i)) {
        must(texts.AppendNull());
        must(numbers.AppendNull());
        continue;
      }
      auto text = typed.FormatValue(i);
      if (text.find('.') != std::string::npos) {
        text.erase(text.find_last_not_of('0') + 1);
        if (text.ends_with('.')) text.pop_back();
      }
      int64_t number = 0;
      whole = whole && parse_number(text, number);
      must(texts.Append(text));
      must(numbers.Append(number));
    }
  };
  if (!data::with_type<arrow::Decimal32Array, arrow::Decimal64Array, arrow::Decimal128Array,
                       arrow::Decimal256Array>(array, take)) {
    return nullptr;
  }
  std::shared_ptr<arrow::Array> out;
  must(whole ? numbers.Finish(&out) : texts.Finish(&out));
  return out;
}

/// Converts 16-bit floats to fp32. Null for an array of another type.
std::shared_ptr<arrow::Array> of_half_floats(const arrow::Array& array) {
  if (array.type_id() != arrow::Type::HALF_FLOAT) return nullptr;
  const auto& typed = static_cast<const arrow::HalfFloatArray&>(array);
  arrow::FloatBuilder builder;
  for (int64_t i = 0; i < typed.length(); ++i) {
    must(typed.IsNull(i)
             ? builder.AppendNull()
             : builder.Append(arrow::util::Float16::FromBits(typed.Value(i)).ToFloat()));
  }
  std::shared_ptr<arrow::Array> out;
  must(builder.Finish(&out));
  return out;
}

bool holds_text(arrow::Type::type id) {
  using arrow::Type;
  return id == Type::STRING || id == Type::LARGE_STRING || id == Type::STRING_VIEW;
}

bool holds_bytes(arrow::Type::type id) {
  using arrow::Type;
  return id == Type::BINARY || id == Type::LARGE_BINARY || id == Type::BINARY_VIEW ||
         id == Type::FIXED_SIZE_BINARY;
}

bool is_text(const arrow::Array& array) {
  using arrow::Type;
  const bool coded = array.type_id() == Type::DICTIONARY;
  const auto id = coded ? static_cast<const arrow::DictionaryArray&>(array).dictionary()->type_id()
                        : array.type_id();
  return holds_text(id);
}

Texts texts_of(const arrow::Array& array, const ColumnPlace& place) {
  Texts out;
  each_text(
      array, place, [&](std::string_view text) { out.emplace_back(text); },
      [&] { out.emplace_back(); });
  return out;
}

/// Builds an array of the type of `builder` from the results of `parse` for each text; null where
/// `parse` fails for one.
template <class Builder, class Parse>
std::shared_ptr<arrow::Array> parsed(const Texts& texts, Builder&& builder, Parse parse) {
  for (const auto& text : texts) {
    typename std::decay_t<Builder>::value_type value{};
    if (text && !parse(*text, value)) return nullptr;
    must(text ? builder.Append(value) : builder.AppendNull());
  }
  std::shared_ptr<arrow::Array> out;
  must(builder.Finish(&out));
  return out;
}

/// Whether a text means a missing time in a CSV file, possibly in quotes.
bool is_no_time(const std::string& text) {
  static const auto kWords = arrow::csv::ConvertOptions::Defaults().null_values;
  return std::find(kWords.begin(), kWords.end(), text) != kWords.end();
}

/// Converts a text column of times to whole numbers, fractions, or instants.
std::shared_ptr<arrow::Array> times_of(Texts texts, const ColumnPlace& place,
                                       std::optional<TimeText>& kind) {
  for (auto& text : texts) {
    if (text) *text = trim(*text);
    if (text && is_no_time(*text)) text.reset();
  }
  find_kind(texts, place, kind);
  if (!kind) return std::make_shared<arrow::NullArray>(std::ssize(texts));  // none is a time

  const auto number = [](const std::string& text, auto& value) {
    return parse_number(text, value);
  };
  if (kind == TimeText::kNumber) {
    auto whole = parsed(texts, arrow::Int64Builder(), number);
    return whole ? whole : parsed(texts, arrow::DoubleBuilder(), number);
  }
  for (const auto unit : {arrow::TimeUnit::MICRO, arrow::TimeUnit::NANO}) {
    auto out = parsed(
        texts, arrow::TimestampBuilder(arrow::timestamp(unit), arrow::system_memory_pool()),
        [&](const std::string& text, int64_t& ticks) { return parse_instant(text, unit, ticks); });
    if (out) return out;
  }
  fail<FileError>(
      "prepare",
      "column '{}' in {} holds instants with nanoseconds and others that nanoseconds do "
      "not reach; expected years 1678 to 2261; try to mend it",
      place.column, place.file);
}

}  // namespace

void each_text(const arrow::Array& array, const ColumnPlace& place,
               const std::function<void(std::string_view)>& value,
               const std::function<void()>& missing) {
  if (array.type_id() == arrow::Type::DICTIONARY) {
    const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
    std::vector<std::optional<std::string>> texts;
    each_text(
        *dictionary.dictionary(), place, [&](std::string_view text) { texts.emplace_back(text); },
        [&] { texts.emplace_back(); });
    for (int64_t i = 0; i < array.length(); ++i) {
      const auto word = static_cast<size_t>(array.IsNull(i) ? 0 : dictionary.GetValueIndex(i));
      array.IsValid(i) && texts[word] ? value(*texts[word]) : missing();
    }
    return;
  }
  if (const auto plain = of_decimals(array)) return each_text(*plain, place, value, missing);
  if (const auto plain = of_half_floats(array)) return each_text(*plain, place, value, missing);
  constexpr const char* kExpected = "text or whole numbers";
  const auto advice = fmt::format("to cast it to text, or {}", place.flag);
  const auto text = [&](std::string_view some) { value(some); };
  const auto bytes = [&](std::string_view some) {
    if (!is_utf8(some)) wrong_type(array, place, kExpected, advice);
    value(some);
  };
  const auto whole = [&](auto number) { value(fmt::format_int(+number).c_str()); };
  // Reads whole numbers from fractions, into which tables with a gap turn them.
  const auto fractions = [&](const auto& typed) {
    for (int64_t i = 0; i < typed.length(); ++i) {
      const double number = typed.IsNull(i) ? NAN : static_cast<double>(typed.Value(i));
      if (std::isnan(number)) {
        missing();
      } else if (number == std::floor(number) && std::abs(number) <= 9e15) {
        whole(static_cast<int64_t>(number));
      } else {
        fail<FileError>("prepare",
                        "{} holds {}; expected text, or whole numbers of at most 9e15; try {}",
                        place_of(place, i), number, advice);
      }
    }
  };
  if (data::with_type<arrow::StringArray, arrow::LargeStringArray, arrow::StringViewArray>(
          array, each(missing, text)) ||
      data::with_type<arrow::BinaryArray, arrow::LargeBinaryArray, arrow::BinaryViewArray,
                      arrow::FixedSizeBinaryArray>(array, each(missing, bytes)) ||
      with_integers(array, each(missing, whole)) || with_fractions(array, fractions)) {
    return;
  }
  each_null(array, place, kExpected, advice, missing);
}

void each_number(const arrow::Array& array, const ColumnPlace& place,
                 const std::function<void(double)>& value, const std::function<void()>& missing) {
  if (const auto plain = of_decimals(array)) {
    const auto number = [&](std::string_view text) {
      double out = 0;
      parse_number(text, out);
      value(out);
    };
    return each_text(*plain, place, number, missing);
  }
  if (const auto plain = of_half_floats(array)) return each_number(*plain, place, value, missing);
  const auto whole = [&](auto number) { value(static_cast<double>(number)); };
  const auto fraction = [&](double number) { std::isnan(number) ? missing() : value(number); };
  if (is_text(array)) {
    const auto texts = texts_of(array, place);
    for (size_t i = 0; i < texts.size(); ++i) {
      double number = 0;
      if (!texts[i]) {
        missing();
      } else if (parse_number(trim(*texts[i]), number)) {
        fraction(number);
      } else {
        fail<FileError>("prepare", "{} holds '{}'; expected a number; try {}",
                        place_of(place, static_cast<int64_t>(i)), *texts[i], place.flag);
      }
    }
    return;
  }
  if (with_integers(array, each(missing, whole)) ||
      with_fractions(array, each(missing, fraction))) {
    return;
  }
  each_null(array, place, "numbers",
            holds_bytes(array.type_id()) ? place.flag : "to cast it to a number", missing);
}

void append_times(const arrow::Array& array, const ColumnPlace& place, int64_t units_per_second,
                  std::optional<TimeText>& kind, Times& times) {
  if (array.length() == 0) return;
  if (const auto plain = of_half_floats(array)) {
    return append_times(*plain, place, units_per_second, kind, times);
  }
  if (const auto plain = of_decimals(array)) {
    // Decides by the type, as another part of the column may hold fractions.
    const bool whole = static_cast<const arrow::DecimalType&>(*array.type()).scale() <= 0;
    if (whole && plain->type_id() == arrow::Type::INT64) {
      return append_times(*plain, place, units_per_second, kind, times);
    }
    arrow::DoubleBuilder builder;
    each_number(
        array, place, [&](double number) { must(builder.Append(number)); },
        [&] { must(builder.AppendNull()); });
    std::shared_ptr<arrow::Array> numbers;
    must(builder.Finish(&numbers));
    return append_times(*numbers, place, units_per_second, kind, times);
  }
  const std::function<void()> missing = [&] { times.append_missing(); };
  const auto with_unit = [&](bool fractions, int64_t per_second, auto value) {
    return [&, fractions, per_second, value](const auto& typed) {
      times.set_unit(fractions, static_cast<double>(per_second));
      each(missing, value)(typed);
    };
  };
  const int64_t before = times.size();
  const auto refuse = [&](auto number) {
    fail<FileError>("prepare",
                    "{} holds {}, no instant that can be counted; expected a time before the year "
                    "292,000; try to mend it, or {}",
                    place_of(place, times.size() - before), number, place.flag);
  };
  const auto ticks = [&](int64_t factor) {
    return [&, factor](auto tick) {
      int64_t out = 0;  // the largest stands for a missing time
      if (__builtin_mul_overflow(tick, factor, &out) || out == INT64_MAX) refuse(+tick);
      times.append_ticks(out);
    };
  };
  const auto seconds = [&](double number) {
    if (std::isinf(number)) refuse(number);
    std::isnan(number) ? missing()
                       : times.append_seconds(number / static_cast<double>(units_per_second));
  };
  if (array.type_id() == arrow::Type::TIMESTAMP) {
    const int64_t per_second =
        data::ticks_per_second(static_cast<const arrow::TimestampType&>(*array.type()).unit());
    // Converts units coarser than nanoseconds to microseconds.
    const int64_t factor = per_second > 1000000 ? 1 : 1000000 / per_second;
    return with_unit(false, per_second * factor,
                     ticks(factor))(static_cast<const arrow::TimestampArray&>(array));
  }
  if (is_text(array)) {
    const auto plain = times_of(texts_of(array, place), place, kind);
    return append_times(*plain, place, units_per_second, kind, times);
  }
  constexpr int64_t kMicroseconds = 1000000, kDay = 86400 * kMicroseconds;
  if (data::with_type<arrow::Date32Array>(array, with_unit(false, kMicroseconds, ticks(kDay))) ||
      data::with_type<arrow::Date64Array>(array, with_unit(false, kMicroseconds, ticks(1000))) ||
      with_integers(array, with_unit(false, units_per_second, ticks(1))) ||
      with_fractions(array, with_unit(true, 1, seconds))) {
    return;
  }
  each_null(array, place, "a number or a timestamp like 2024-01-31T12:00:00", place.flag, missing);
}

}  // namespace convoy::prepare
