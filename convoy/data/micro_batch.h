#pragma once

#include <map>
#include <string>
#include <vector>

#include "convoy/data/columns.h"
#include "convoy/data/known_ids.h"
#include "convoy/data/row_source.h"

namespace convoy::data {

/// End that stays of a list longer than the limit.
enum class Truncation { KeepLast, KeepFirst };

/// Type and shape of a column's values.
struct ColumnShape {
  Column::Kind kind = Column::Int64;
  bool is_list = false;
  int64_t width = 0;  ///< of vectors; 0 = each value is a number

  int64_t num_numbers() const { return width > 0 ? width : 1; }  ///< of a value
};

/// A column of a batch, dense. Lists: [rows, length] in row-major order, padded with zeros on the
/// right; scalars: [rows]. Vectors have their numbers behind.
struct PaddedColumn : ColumnShape {
  std::vector<int64_t> ints;
  std::vector<float> floats;
};

/// Limits of the lists in micro-batches.
struct ListLimits {
  int64_t max_length = 20;  ///< longer ones are cut
  Truncation truncation = Truncation::KeepLast;
  std::string padded = "";  ///< a column of ids whose 0 at the end of a row are no values; "": none
  std::string whole = "";   ///< a column of ids that MicroBatch::whole has uncut; "": none
  /// A column that counts values from the start of each row's lists, less those cut; "": none.
  std::string leading = "";
  bool last_is_target = false;  ///< rows are evaluated on their last value
  KnownIds known = {};
};

/// A micro-batch of one rank. It always has a row: a micro-batch without samples holds one row of
/// padding with length 0, so that every rank has something to run.
struct LoadedRows {
  int64_t rows = 0;         ///< at least 1
  int64_t num_samples = 0;  ///< rows that hold a sample: `rows`, or 0 for a micro-batch of padding
  int64_t length = 1;       ///< of the longest list, at least 1
  std::map<std::string, PaddedColumn> columns;
  /// [rows, whole_length] ids of ListLimits::whole, padded with zeros; without a target.
  std::vector<int64_t> whole;
  int64_t whole_length = 0;            ///< of its longest list; 0: not asked for
  std::vector<int64_t> lengths;        ///< [rows] valid positions; 1 without list columns
  std::vector<int64_t> sample_offset;  ///< [rows] index of the sample in the step's global batch
  /// [rows] 1 = KnownPlaces::missed; empty unless rows have targets and ids may be unknown.
  std::vector<int64_t> missed;
  int64_t truncated_rows = 0;  ///< rows that lost positions to the limit
  int64_t short_rows = 0;      ///< rows with fewer than two positions: nothing to predict
};

/// Collects rows of one micro-batch, then pads them to its longest.
class MicroBatchBuilder {
 public:
  /// Builder for these columns, by name.
  MicroBatchBuilder(const std::map<std::string, ColumnShape>& columns, ListLimits limits);

  /// Copies what is known of the row, cut to the limit.
  void add(const RowRef& ref, int64_t sample_offset);
  /// Returns the micro-batch; leaves the builder empty.
  LoadedRows finish();

 private:
  /// Values of a row from `begin` on that a micro-batch has: all of a stretch, or some places.
  struct Kept {
    int64_t first = 0, length = 0;
    bool some = false;
    std::vector<int64_t> places;  // where `some`
    bool missed = false;
  };
  Kept kept_of(const RowRef& ref, int64_t length) const;
  void copy_whole(const Column& column, int64_t begin, int64_t length);

  const std::map<std::string, ColumnShape> columns_;
  const ListLimits limits_;
  LoadedRows micro_batch_;
  std::vector<int64_t> whole_, whole_lengths_;  // ids of the rows so far, laid end to end
  std::map<std::string, Column> ragged_;        // values of the rows so far, by column
};

}  // namespace convoy::data
