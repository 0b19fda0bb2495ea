#include "convoy/data/arrow_decode.h"

#include <arrow/type_traits.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/arrow_types.h"

namespace convoy::data {

namespace {

using arrow::Type;

/// Row that contains value `index`; `offsets` of the new rows begin at 0.
int64_t row_holding(const std::vector<int64_t>& offsets, int64_t index) {
  return std::upper_bound(offsets.begin(), offsets.end(), index) - offsets.begin() - 1;
}

/// Names the place of a mistake: column, row and file.
struct Place {
  const std::string& column;
  int64_t first_row;
  const std::filesystem::path& path;
  const std::vector<int64_t>* lists = nullptr;  ///< offsets of the rows, where i is of their values

  Place within(const std::vector<int64_t>& rows) const { return {column, first_row, path, &rows}; }

  std::string row(int64_t i) const {
    if (lists != nullptr) i = row_holding(*lists, i);
    return fmt::format("column '{}', row {} of {}", column, first_row + i, path.string());
  }
};

bool is_whole(Type::type id) {
  return id == Type::BOOL || arrow::is_integer(id) || id == Type::TIMESTAMP || id == Type::DATE32 ||
         id == Type::DATE64;
}

/// Whether a type is read as fractions: also times of day and durations, in which fractions of a
/// second count.
bool is_fraction(Type::type id) {
  return id == Type::FLOAT || id == Type::DOUBLE || id == Type::TIME32 || id == Type::TIME64 ||
         id == Type::DURATION;
}

bool is_lists(const arrow::DataType& type) {
  return type.id() == Type::LIST || type.id() == Type::LARGE_LIST ||
         type.id() == Type::FIXED_SIZE_LIST;
}

const arrow::DataType& without_dictionary(const arrow::DataType& type) {
  if (type.id() != Type::DICTIONARY) return type;
  return *static_cast<const arrow::DictionaryType&>(type).value_type();
}

/// Appends instants as whole seconds since 1970, times of day and durations as seconds. Returns
/// false for other types.
bool append_seconds(const arrow::Array& array, Column& out) {
  const auto whole = [&](int64_t per_second, int64_t seconds_of_one = 1) {
    return [&out, per_second, seconds_of_one](const auto& typed) {
      for (int64_t i = 0; i < typed.length(); ++i) {
        const auto ticks = static_cast<int64_t>(typed.Value(i));
        const int64_t seconds = ticks / per_second - (ticks % per_second < 0 ? 1 : 0);
        out.ints.push_back(seconds * seconds_of_one);
      }
    };
  };
  const auto fractions = [&](const auto& typed) {
    using Typed = typename std::decay_t<decltype(typed)>::TypeClass;
    const auto unit = static_cast<const Typed&>(*typed.type()).unit();
    const auto per_second = static_cast<double>(ticks_per_second(unit));
    for (int64_t i = 0; i < typed.length(); ++i) {
      out.floats.push_back(static_cast<float>(static_cast<double>(typed.Value(i)) / per_second));
    }
  };
  if (array.type_id() == Type::TIMESTAMP) {
    const auto unit = static_cast<const arrow::TimestampType&>(*array.type()).unit();
    whole(ticks_per_second(unit))(static_cast<const arrow::TimestampArray&>(array));
    return true;
  }
  constexpr int64_t kDay = 86400;
  return with_type<arrow::Date32Array>(array, whole(1, kDay)) ||
         with_type<arrow::Date64Array>(array, whole(1000)) ||
         with_type<arrow::Time32Array, arrow::Time64Array, arrow::DurationArray>(array, fractions);
}

/// Appends plain values without nulls; the caller has checked that the type is readable.
void append_plain(const arrow::Array& array, Column& out) {
  const auto append = [&](auto& values) {
    return [&values](const auto& typed) {
      using Value = typename std::decay_t<decltype(values)>::value_type;
      for (int64_t i = 0; i < typed.length(); ++i) {
        values.push_back(static_cast<Value>(typed.Value(i)));
      }
    };
  };
  const bool known = with_integers(array, append(out.ints)) ||
                     with_fractions(array, append(out.floats)) || append_seconds(array, out);
  internal_check(known, "data", "cannot decode {}", array.type()->ToString());
}

void append_dictionary(const arrow::DictionaryArray& array, Column& out) {
  const arrow::Array& words = *array.dictionary();
  Column decoded;
  append_plain(words, decoded);
  for (int64_t i = 0; i < array.length(); ++i) {
    const int64_t word = array.GetValueIndex(i);
    internal_check(word >= 0 && word < words.length() && words.IsValid(word), "data",
                   "dictionary entry {} of {}", word, words.length());
    if (is_fraction(words.type_id())) {
      out.floats.push_back(decoded.floats[word]);
    } else {
      out.ints.push_back(decoded.ints[word]);
    }
  }
}

void append_values(const arrow::Array& array, Column& out) {
  if (array.type_id() == Type::DICTIONARY) {
    append_dictionary(static_cast<const arrow::DictionaryArray&>(array), out);
  } else {
    append_plain(array, out);
  }
}

int64_t first_null(const arrow::Array& array) {
  int64_t i = 0;
  while (i < array.length() && array.IsValid(i)) ++i;
  return i;
}

/// An array of lists: list i is [offsets[i], offsets[i + 1]) of the values.
struct Lists {
  std::vector<int64_t> offsets = {0};
  std::shared_ptr<arrow::Array> values;
};

/// Lists of an array; lists and values must not be null.
Lists lists_of(const arrow::Array& array, const Place& place) {
  if (array.null_count() > 0) {
    fail<FileError>("data", "{} is null; expected a list; drop such rows or fill them",
                    place.row(first_null(array)));
  }
  Lists out;
  const auto take = [&](const auto& lists) {
    for (int64_t i = 0; i < lists.length(); ++i) {
      out.offsets.push_back(out.offsets.back() + lists.value_length(i));
    }
    out.values =
        lists.values()->Slice(lists.length() == 0 ? 0 : lists.value_offset(0), out.offsets.back());
  };
  const bool known =
      with_type<arrow::ListArray, arrow::LargeListArray, arrow::FixedSizeListArray>(array, take);
  internal_check(known, "data", "no list: {}", array.type()->ToString());
  if (out.values->null_count() > 0) {
    fail<FileError>("data", "{} holds a null; expected numbers; drop such rows or fill them",
                    place.row(row_holding(out.offsets, first_null(*out.values))));
  }
  return out;
}

void append_offsets(const std::vector<int64_t>& offsets, Column& out) {
  if (out.offsets.empty()) out.offsets.push_back(0);
  const int64_t shift = out.offsets.back();
  for (size_t i = 1; i < offsets.size(); ++i) out.offsets.push_back(shift + offsets[i]);
}

/// Appends one vector a row, or a list of them.
void append_vectors(const arrow::Array& array, int64_t width, const Place& place, Column& out) {
  const Decoding decoding = decoding_of(*array.type());
  out.kind = decoding.kind;
  out.is_list = decoding.is_vectors;
  auto vectors = lists_of(array, place);
  std::vector<int64_t> of_row;  // only where a row has a list of them
  if (out.is_list) {
    of_row = std::move(vectors.offsets);
    append_offsets(of_row, out);
    const auto inner = vectors.values;
    vectors = lists_of(*inner, place.within(of_row));
  }
  if (width == 0 && vectors.offsets.size() > 1) width = vectors.offsets[1];
  out.width = std::max<int64_t>(1, width);
  for (size_t i = 1; i < vectors.offsets.size(); ++i) {
    const int64_t numbers = vectors.offsets[i] - vectors.offsets[i - 1];
    if (numbers == width) continue;
    const auto& where = out.is_list ? place.within(of_row) : place;
    fail<FileError>("data", "{} holds a vector of {}; expected {}; mend the row",
                    where.row(static_cast<int64_t>(i) - 1), plural(numbers, "number"), width);
  }
  append_values(*vectors.values, out);
}

void append_column(const arrow::Array& array, const Place& place, Column& out) {
  const Decoding decoding = decoding_of(*array.type());
  out.kind = decoding.kind;
  out.is_list = decoding.is_list;
  if (out.is_list) {
    const auto lists = lists_of(array, place);
    append_values(*lists.values, out);
    return append_offsets(lists.offsets, out);
  }
  if (array.null_count() > 0) {
    fail<FileError>("data", "{} is null; expected a number; drop such rows or fill them",
                    place.row(first_null(array)));
  }
  append_values(array, out);
}

/// Throws FileError for an id beyond its limit. `is_unsigned`: values beyond int64 were read as
/// negative ones.
void check_limit(const Column& column, int64_t first_new_row, const IdLimit& limit,
                 bool is_unsigned, const Place& place) {
  if (column.kind != Column::Int64) return;
  const int64_t begin = column.is_list ? column.offsets[first_new_row] : first_new_row;
  for (auto i = static_cast<size_t>(begin); i < column.ints.size(); ++i) {
    if (column.ints[i] >= 0 && column.ints[i] <= limit.max) continue;
    const auto index = static_cast<int64_t>(i);
    const int64_t row = column.is_list ? row_holding(column.offsets, index) : index;
    fail<FileError>("data", "{} holds id {}; expected 0 to {}; {}", place.row(row - first_new_row),
                    is_unsigned ? fmt::format("{}", static_cast<uint64_t>(column.ints[i]))
                                : fmt::format("{}", column.ints[i]),
                    limit.max, limit.advice);
  }
}

void check_finite(const Column& column, int64_t first_new_row, const Place& place) {
  if (column.kind != Column::Float32) return;
  const int64_t begin = column.is_list ? column.offsets[first_new_row] : first_new_row;
  for (auto i = static_cast<size_t>(begin * column.width); i < column.floats.size(); ++i) {
    if (std::isfinite(column.floats[i])) continue;
    const auto index = static_cast<int64_t>(i) / column.width;
    const int64_t row = column.is_list ? row_holding(column.offsets, index) : index;
    fail<FileError>("data", "{} holds {}; expected finite numbers; drop such rows or fill them",
                    place.row(row - first_new_row), column.floats[i]);
  }
}

/// Checks that all lists of a row describe the same positions.
void check_lengths(const Rows& rows, int64_t first_new_row, int64_t first_row,
                   const std::filesystem::path& path) {
  const std::pair<const std::string, Column>* reference = nullptr;
  for (const auto& named : rows.columns) {
    if (!named.second.is_list) continue;
    if (!reference) {
      reference = &named;
      continue;
    }
    const auto &a = reference->second.offsets, &b = named.second.offsets;
    const auto start = static_cast<std::ptrdiff_t>(first_new_row);
    auto differ = std::mismatch(a.begin() + start, a.end(), b.begin() + start, b.end());
    if (differ.first == a.end()) continue;
    const int64_t row = differ.first - a.begin() - 1;
    fail<FileError>("data",
                    "row {} of {} has {} values in column '{}' but {} in '{}'; expected lists of "
                    "equal length in one row",
                    first_row + row - first_new_row, path.string(), a[row + 1] - a[row],
                    reference->first, b[row + 1] - b[row], named.first);
  }
}

}  // namespace

Decoding decoding_of(const arrow::DataType& type) {
  const bool is_list = is_lists(type);
  const arrow::DataType& value = without_dictionary(
      is_list ? *static_cast<const arrow::BaseListType&>(type).value_type() : type);
  Decoding decoding;
  if (is_list && is_lists(value)) {
    const auto& inner = *static_cast<const arrow::BaseListType&>(value).value_type();
    decoding.is_vectors = is_fraction(inner.id());
    decoding.kind = Column::Float32;
    return decoding;
  }
  decoding.is_list = is_list;
  decoding.readable = is_fraction(value.id()) || is_whole(value.id());
  decoding.may_overflow = value.id() == Type::UINT64;
  decoding.kind = is_fraction(value.id()) ? Column::Float32 : Column::Int64;
  return decoding;
}

std::vector<ColumnInfo> columns_of(const arrow::Schema& schema) {
  std::vector<ColumnInfo> out;
  for (const auto& field : schema.fields()) {
    const Decoding decoding = decoding_of(*field->type());
    out.push_back({field->name(), field->type()->ToString(), decoding.readable, decoding.is_vectors,
                   decoding.is_list, decoding.kind});
  }
  return out;
}

void append_batch(const arrow::RecordBatch& batch, const Selection& selection, int64_t first_row,
                  const std::filesystem::path& path, Rows& rows) {
  for (const std::string& name : selection.columns) {
    auto array = batch.GetColumnByName(name);
    internal_check(array != nullptr, "data", "column '{}' was not read", name);
    const Place place{name, first_row, path};
    Column& column = rows.columns[name];
    if (const auto width = selection.widths.find(name); width != selection.widths.end()) {
      append_vectors(*array, width->second, place, column);
    } else {
      append_column(*array, place, column);
    }
    check_finite(column, rows.num_rows, place);
    auto limit = selection.limits.find(name);
    const bool is_unsigned = decoding_of(*array->type()).may_overflow;
    if (limit != selection.limits.end()) {
      check_limit(column, rows.num_rows, limit->second, is_unsigned, place);
    } else if (is_unsigned) {
      check_limit(column, rows.num_rows, {}, is_unsigned, place);
    }
  }
  check_lengths(rows, rows.num_rows, first_row, path);
  rows.num_rows += batch.num_rows();
}

}  // namespace convoy::data
