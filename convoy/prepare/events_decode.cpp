#include "convoy/prepare/events_decode.h"

#include <arrow/builder.h>
#include <arrow/memory_pool.h>
#include <arrow/type.h>
#include <arrow/util/value_parsing.h>

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
                             const char* expected) {
  fail<FileError>("prepare", "column '{}' in {} is {}; expected {}; try {}", place.column,
                  place.file, array.type()->ToString(), expected, place.flag);
}

enum class TimeText { kNumber, kInstant, kNeither };

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

/// Kind of times that a column holds as text. Throws FileError that names the first entry that is
/// no time, or not of the same kind as the first.
TimeText kind_of_all(const Texts& texts, const ColumnPlace& place) {
  std::optional<TimeText> first;
  int64_t odd = -1;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i]) continue;
    const TimeText kind = kind_of(*texts[i]);
    if (!first && kind != TimeText::kNeither) first = kind;
    if (kind == TimeText::kNeither || (kind != *first && odd < 0)) odd = static_cast<int64_t>(i);
    if (kind == TimeText::kNeither) break;
  }
  if (odd < 0) return first.value_or(TimeText::kNumber);
  fail<FileError>("prepare",
                  "column '{}', row {} of {} holds '{}'; expected a number or a timestamp like "
                  "2024-01-31T12:00:00, of one kind in the whole column; try to mend it, or {}",
                  place.column, place.first_row + odd, place.file, *texts[static_cast<size_t>(odd)],
                  place.flag);
}

/// For an array of a known type: calls `value` with every entry, `missing` for each null.
template <class Value>
auto each(const std::function<void()>& missing, Value value) {
  return [&missing, value](const auto& typed) {
    for (int64_t i = 0; i < typed.length(); ++i) {
      typed.IsNull(i) ? missing() : value(typed.GetView(i));
    }
  };
}

/// An array of no type that is known holds nulls only, or is a mistake.
void each_null(const arrow::Array& array, const ColumnPlace& place, const char* expected,
               const std::function<void()>& missing) {
  if (array.type_id() != arrow::Type::NA) wrong_type(array, place, expected);
  for (int64_t i = 0; i < array.length(); ++i) missing();
}

int64_t scaled_tick(int64_t tick, int64_t factor, const ColumnPlace& place) {
  int64_t out = 0;
  if (__builtin_mul_overflow(tick, factor, &out)) {
    fail<FileError>("prepare", "column '{}' in {} holds an instant beyond the year 292,000",
                    place.column, place.file);
  }
  return out;
}

void must(const arrow::Status& status) {
  internal_check(status.ok(), "prepare", "{}", status.ToString());
}

/// NUMERIC columns of databases, whose type may have a scale although their values are whole: the
/// same as whole numbers where all are and fit, else as texts. Null where the array is no decimal.
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
  if (!data::with_type<arrow::Decimal128Array, arrow::Decimal256Array>(array, take)) return nullptr;
  std::shared_ptr<arrow::Array> out;
  must(whole ? numbers.Finish(&out) : texts.Finish(&out));
  return out;
}

bool is_text(const arrow::Array& array) {
  using arrow::Type;
  const bool coded = array.type_id() == Type::DICTIONARY;
  const auto id = coded ? static_cast<const arrow::DictionaryArray&>(array).dictionary()->type_id()
                        : array.type_id();
  return id == Type::STRING || id == Type::LARGE_STRING;
}

Texts texts_of(const arrow::Array& array, const ColumnPlace& place) {
  Texts out;
  each_text(
      array, place, [&](std::string_view text) { out.emplace_back(text); },
      [&] { out.emplace_back(); });
  return out;
}

/// An array of the type that `builder` has, of what `parse` gets out of each text; null where it
/// gets nothing out of one.
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

/// A column of times that came as text: whole numbers, fractions, or instants.
std::shared_ptr<arrow::Array> times_of(const Texts& texts, const ColumnPlace& place) {
  const auto number = [](const std::string& text, auto& value) {
    return parse_number(text, value);
  };
  if (kind_of_all(texts, place) == TimeText::kNumber) {
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
  const auto text = [&](std::string_view some) { value(some); };
  const auto bytes = [&](std::string_view some) {
    if (!is_utf8(some)) wrong_type(array, place, "text or whole numbers");
    value(some);
  };
  const auto whole = [&](auto number) { value(fmt::format_int(+number).c_str()); };
  // Whole numbers become fractions in tables that once had a gap.
  const auto fraction = [&](double number) {
    if (std::isnan(number)) return missing();
    if (number != std::floor(number) || std::abs(number) > 9e15) {
      wrong_type(array, place, "text or whole numbers");
    }
    whole(static_cast<int64_t>(number));
  };
  if (data::with_texts(array, each(missing, text)) ||
      data::with_type<arrow::BinaryArray, arrow::LargeBinaryArray>(array, each(missing, bytes)) ||
      with_integers(array, each(missing, whole)) ||
      with_fractions(array, each(missing, fraction))) {
    return;
  }
  each_null(array, place, "text or whole numbers", missing);
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
        fail<FileError>("prepare",
                        "column '{}', row {} of {} holds '{}'; expected a number; try {}",
                        place.column, place.first_row + static_cast<int64_t>(i), place.file,
                        *texts[i], place.flag);
      }
    }
    return;
  }
  if (with_integers(array, each(missing, whole)) ||
      with_fractions(array, each(missing, fraction))) {
    return;
  }
  each_null(array, place, "numbers", missing);
}

void append_times(const arrow::Array& array, const ColumnPlace& place, int64_t units_per_second,
                  Times& times) {
  if (array.length() == 0) return;
  if (const auto plain = of_decimals(array)) {
    // By the type: another part of the column may hold fractions.
    const bool whole = static_cast<const arrow::DecimalType&>(*array.type()).scale() <= 0;
    if (whole && plain->type_id() == arrow::Type::INT64) {
      return append_times(*plain, place, units_per_second, times);
    }
    arrow::DoubleBuilder builder;
    each_number(
        array, place, [&](double number) { must(builder.Append(number)); },
        [&] { must(builder.AppendNull()); });
    std::shared_ptr<arrow::Array> numbers;
    must(builder.Finish(&numbers));
    return append_times(*numbers, place, units_per_second, times);
  }
  const std::function<void()> missing = [&] { times.append_missing(); };
  const auto with_unit = [&](bool fractions, int64_t per_second, auto value) {
    return [&, fractions, per_second, value](const auto& typed) {
      times.set_unit(fractions, static_cast<double>(per_second));
      each(missing, value)(typed);
    };
  };
  const auto ticks = [&](int64_t factor) {
    return [&, factor](auto tick) {
      times.append_ticks(scaled_tick(static_cast<int64_t>(tick), factor, place));
    };
  };
  const auto seconds = [&](double number) {
    std::isnan(number) ? missing()
                       : times.append_seconds(number / static_cast<double>(units_per_second));
  };
  if (array.type_id() == arrow::Type::TIMESTAMP) {
    const int64_t per_second =
        data::ticks_per_second(static_cast<const arrow::TimestampType&>(*array.type()).unit());
    // Nanoseconds stay; everything coarser becomes microseconds.
    const int64_t factor = per_second > 1000000 ? 1 : 1000000 / per_second;
    return with_unit(false, per_second * factor,
                     ticks(factor))(static_cast<const arrow::TimestampArray&>(array));
  }
  if (is_text(array)) {
    return append_times(*times_of(texts_of(array, place), place), place, units_per_second, times);
  }
  constexpr int64_t kMicroseconds = 1000000, kDay = 86400 * kMicroseconds;
  if (data::with_type<arrow::Date32Array>(array, with_unit(false, kMicroseconds, ticks(kDay))) ||
      data::with_type<arrow::Date64Array>(array, with_unit(false, kMicroseconds, ticks(1000))) ||
      with_integers(array, with_unit(false, units_per_second, ticks(1))) ||
      with_fractions(array, with_unit(true, 1, seconds))) {
    return;
  }
  each_null(array, place, "a number or a timestamp like 2024-01-31T12:00:00", missing);
}

}  // namespace convoy::prepare
