#pragma once

// Knows Arrow; for sources only: columns by the type of their values.

#include <arrow/array.h>
#include <arrow/type.h>

#include <cstdint>
#include <utility>

namespace convoy::data {

/// Calls `f` with the array as the one of these types that it has; false where it has none of them.
template <class... Arrays, class F>
bool with_type(const arrow::Array& array, F&& f) {
  return ((array.type_id() == Arrays::TypeClass::type_id &&
           (f(static_cast<const Arrays&>(array)), true)) ||
          ...);
}

/// Ticks of a unit of time in a second.
inline int64_t ticks_per_second(arrow::TimeUnit::type unit) {
  constexpr int64_t kPerSecond[] = {1, 1'000, 1'000'000, 1'000'000'000};
  return kPerSecond[unit];
}

template <class F>
bool with_integers(const arrow::Array& array, F&& f) {
  return with_type<arrow::BooleanArray, arrow::Int8Array, arrow::Int16Array, arrow::Int32Array,
                   arrow::Int64Array, arrow::UInt8Array, arrow::UInt16Array, arrow::UInt32Array,
                   arrow::UInt64Array>(array, std::forward<F>(f));
}

template <class F>
bool with_fractions(const arrow::Array& array, F&& f) {
  return with_type<arrow::FloatArray, arrow::DoubleArray>(array, std::forward<F>(f));
}

template <class F>
bool with_texts(const arrow::Array& array, F&& f) {
  return with_type<arrow::StringArray, arrow::LargeStringArray>(array, std::forward<F>(f));
}

}  // namespace convoy::data
