#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace convoy::data {

/// One decoded column. Whole numbers of every width arrive as int64, fractions as float32.
/// Timestamps and dates are whole seconds since 1970, times of day and durations seconds with
/// fractions, whatever unit the file has.
struct Column {
  enum Kind { Int64, Float32 };

  Kind kind = Int64;
  bool is_list = false;
  int64_t width = 1;          ///< numbers of a value: a vector's, else 1
  std::vector<int64_t> ints;  ///< values when kind is Int64
  std::vector<float> floats;  ///< values when kind is Float32, vectors end to end
  std::vector<int64_t>
      offsets;  ///< lists only: row i is [offsets[i], offsets[i + 1]), rows + 1 long

  /// Number of values held.
  int64_t num_values() const {
    return static_cast<int64_t>(kind == Int64 ? ints.size() : floats.size()) / width;
  }
  /// First value of row i.
  int64_t begin(int64_t row) const { return is_list ? offsets[row] : row; }
  /// One past the last value of row i.
  int64_t end(int64_t row) const { return is_list ? offsets[row + 1] : row + 1; }
  /// Forgets the values, keeps the memory.
  void clear() {
    ints.clear();
    floats.clear();
    offsets.clear();
  }
  /// Bytes of memory that the values and offsets occupy.
  int64_t bytes() const {
    return static_cast<int64_t>(ints.capacity() * sizeof(int64_t) +
                                floats.capacity() * sizeof(float) +
                                offsets.capacity() * sizeof(int64_t));
  }
};

/// Decoded rows of some columns, by column name.
struct Rows {
  int64_t num_rows = 0;
  std::map<std::string, Column> columns;

  /// Forgets the rows, keeps the memory.
  void clear() {
    num_rows = 0;
    for (auto& [name, column] : columns) column.clear();
  }
  int64_t bytes() const {
    int64_t sum = 0;
    for (const auto& [name, column] : columns) sum += column.bytes();
    return sum;
  }
};

/// Ids of a categorical column lie in [0, max].
struct IdLimit {
  int64_t max = std::numeric_limits<int64_t>::max();
  /// Advice for an id beyond it.
  std::string advice = "mend the schema's intDomain or encode the column again";
};

/// Columns to read from a file, and checks while decoding.
struct Selection {
  std::vector<std::string> columns;
  std::map<std::string, IdLimit> limits;  ///< by column name; columns without one are not checked
  /// Columns of vectors, one a row or a list of them, and how many fractions each has; 0 = as many
  /// as the first of those that are decoded at once.
  std::map<std::string, int64_t> widths = {};
};

}  // namespace convoy::data
