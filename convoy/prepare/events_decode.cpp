#include "convoy/prepare/events_decode.h"

#include <arrow/type.h>
#include <arrow/util/value_parsing.h>

#include <cmath>
#include <optional>

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

TimeText kind_of(std::string_view text) {
  double number = 0;
  int64_t instant = 0;
  if (parse_number(text, number)) return TimeText::kNumber;
  return arrow::internal::ParseTimestampISO8601(text.data(), text.size(), arrow::TimeUnit::SECOND,
                                                &instant)
             ? TimeText::kInstant
             : TimeText::kNeither;
}

/// A column of times came as text: names the first entry that is no time, or not of the same kind
/// as the first.
void refuse_text(const arrow::StringArray& array, const ColumnPlace& place) {
  std::optional<TimeText> first;
  int64_t odd = -1;
  for (int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) continue;
    const TimeText kind = kind_of(array.GetView(i));
    if (!first && kind != TimeText::kNeither) first = kind;
    if (kind == TimeText::kNeither || (kind != *first && odd < 0)) odd = i;
    if (kind == TimeText::kNeither) break;
  }
  if (odd < 0) return;
  fail<FileError>("prepare",
                  "column '{}', row {} of {} holds '{}'; expected a number or a timestamp like "
                  "2024-01-31T12:00:00, of one kind in the whole column; try to mend it, or {}",
                  place.column, place.first_row + odd, place.file, array.GetView(odd), place.flag);
}

/// Calls f(index) for every entry that is not null, `missing` for the others.
template <class F>
void each_index(const arrow::Array& array, F&& f, const std::function<void()>& missing) {
  for (int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) {
      missing();
    } else {
      f(i);
    }
  }
}

int64_t scaled_tick(int64_t tick, int64_t factor, const ColumnPlace& place) {
  int64_t out = 0;
  if (__builtin_mul_overflow(tick, factor, &out)) {
    fail<FileError>("prepare", "column '{}' in {} holds an instant beyond the year 292,000",
                    place.column, place.file);
  }
  return out;
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
    each_index(
        array,
        [&](int64_t i) {
          const auto& text = texts[static_cast<size_t>(dictionary.GetValueIndex(i))];
          text ? value(*text) : missing();
        },
        missing);
    return;
  }
  bool known = data::with_type<arrow::StringArray, arrow::LargeStringArray>(array,
                         [&](const auto& typed) {
                           each_index(array, [&](int64_t i) { value(typed.GetView(i)); }, missing);
                         }) ||
               with_integers(
                   array,
                   [&](const auto& typed) {
                     each_index(
                         array, [&](int64_t i) { value(fmt::format_int(+typed.Value(i)).c_str()); },
                         missing);
                   }) ||
               with_fractions(array, [&](const auto& typed) {
                 // Whole numbers become fractions in tables that once had a gap.
                 each_index(
                     array,
                     [&](int64_t i) {
                       double number = typed.Value(i);
                       if (std::isnan(number)) return missing();
                       if (number != std::floor(number) || std::abs(number) > 9e15) {
                         wrong_type(array, place, "text or whole numbers");
                       }
                       value(fmt::format_int(static_cast<int64_t>(number)).c_str());
                     },
                     missing);
               });
  if (array.type_id() == arrow::Type::NA) {
    for (int64_t i = 0; i < array.length(); ++i) missing();
  } else if (!known) {
    wrong_type(array, place, "text or whole numbers");
  }
}

void each_number(const arrow::Array& array, const ColumnPlace& place,
                 const std::function<void(double)>& value, const std::function<void()>& missing) {
  auto whole = [&](const auto& typed) {
    each_index(array, [&](int64_t i) { value(static_cast<double>(typed.Value(i))); }, missing);
  };
  auto fraction = [&](const auto& typed) {
    each_index(
        array,
        [&](int64_t i) {
          double number = typed.Value(i);
          std::isnan(number) ? missing() : value(number);
        },
        missing);
  };
  if (with_integers(array, whole) || with_fractions(array, fraction)) return;
  if (array.type_id() != arrow::Type::NA) wrong_type(array, place, "numbers");
  for (int64_t i = 0; i < array.length(); ++i) missing();
}

void append_times(const arrow::Array& array, const ColumnPlace& place, Times& times) {
  auto missing = [&] { times.append_missing(); };
  if (array.length() == 0) return;
  switch (array.type_id()) {
    case arrow::Type::TIMESTAMP: {
      constexpr int64_t kPerSecond[] = {1, 1000, 1000000, 1000000000};
      int64_t per_second =
          kPerSecond[static_cast<const arrow::TimestampType&>(*array.type()).unit()];
      const auto& typed = static_cast<const arrow::TimestampArray&>(array);
      // Nanoseconds stay; everything coarser becomes microseconds.
      int64_t factor = per_second > 1000000 ? 1 : 1000000 / per_second;
      times.set_unit(false, static_cast<double>(per_second * factor));
      each_index(
          array, [&](int64_t i) { times.append_ticks(scaled_tick(typed.Value(i), factor, place)); },
          missing);
      return;
    }
    case arrow::Type::DATE32: {
      const auto& typed = static_cast<const arrow::Date32Array&>(array);
      times.set_unit(false, 1e6);
      each_index(
          array,
          [&](int64_t i) {
            times.append_ticks(scaled_tick(typed.Value(i), int64_t{86400} * 1000000, place));
          },
          missing);
      return;
    }
    case arrow::Type::STRING:
      refuse_text(static_cast<const arrow::StringArray&>(array), place);
      break;
    default:
      break;
  }
  bool known = with_integers(array, [&](const auto& typed) {
    times.set_unit(false, 1);
    each_index(
        array, [&](int64_t i) { times.append_ticks(static_cast<int64_t>(typed.Value(i))); },
        missing);
  });
  known = known || with_fractions(array, [&](const auto& typed) {
            times.set_unit(true, 1);
            each_index(
                array,
                [&](int64_t i) {
                  double seconds = typed.Value(i);
                  std::isnan(seconds) ? missing() : times.append_seconds(seconds);
                },
                missing);
          });
  if (known) return;
  if (array.type_id() != arrow::Type::NA) {
    wrong_type(array, place, "a number or a timestamp like 2024-01-31T12:00:00");
  }
  for (int64_t i = 0; i < array.length(); ++i) missing();
}

}  // namespace convoy::prepare
