#pragma once

// Internal to the component: conversion of Arrow arrays of many types to the few forms of events.

#include <arrow/array.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "convoy/prepare/times.h"

namespace convoy::prepare {

/// Origin of a column, for messages.
struct ColumnPlace {
  std::string column;
  std::string file;
  std::string flag;       ///< the option that chose it
  int64_t first_row = 0;  ///< of the array at hand, as TableSource::first_row counts
};

/// Calls `value` with the text of each entry (whole numbers in decimal), `missing` for nulls.
void each_text(const arrow::Array& array, const ColumnPlace& place,
               const std::function<void(std::string_view)>& value,
               const std::function<void()>& missing);

/// Calls `value` with each entry as a number, `missing` for nulls and NaN.
void each_number(const arrow::Array& array, const ColumnPlace& place,
                 const std::function<void(double)>& value, const std::function<void()>& missing);

/// Kind of a time that is written as text.
enum class TimeText { kNumber, kInstant, kNeither };

/// Appends numbers, dates or timestamps. `kind` keeps the kind of a text column's times from one
/// part of the column to the next. Throws FileError that names the row of a text that is no time or
/// of another kind than those before, and of a number that is no instant.
void append_times(const arrow::Array& array, const ColumnPlace& place, int64_t units_per_second,
                  std::optional<TimeText>& kind, Times& times);

}  // namespace convoy::prepare
