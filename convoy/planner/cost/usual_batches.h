#pragma once

#include <vector>

#include "convoy/dataset/batches.h"
#include "convoy/options/arguments.h"

namespace convoy::planner {

/// Micro-batches whose costs stand for all others. Where rows differ in length, memory is that
/// of one with the longest row of all and, together, as many positions as the largest of the run is
/// expected to have; time is that of one as long as they are on average.
class UsualBatches {
 public:
  /// Makes micro-batches of `most_rows` rows at most. The data must outlive it.
  UsualBatches(const options::TrainingArguments& arguments, const dataset::Dataset& data,
               int64_t most_rows);

  /// Whether rows differ in length, so that there are two kinds.
  bool vary() const { return vary_; }
  /// Whether the data has so many rows.
  bool has(int64_t rows) const { return rows <= num_rows(); }
  /// Number of rows of the data; where all rows are of equal length, at most `most_rows`.
  int64_t num_rows() const;
  /// Micro-batches of `rows` rows, or of all where the data has fewer; throw UsageError where it
  /// has none.
  parallel::MicroBatch longest(int64_t rows) const;
  parallel::MicroBatch mean(int64_t rows) const;
  /// Mean length of a micro-batch of so many rows, where rows differ in length.
  double mean_length(int64_t rows) const;

 private:
  parallel::MicroBatch of(size_t longest_row, int64_t rows, double positions) const;
  double most_positions(int64_t rows) const;
  double micro_batches(int64_t rows) const;
  int64_t there(int64_t rows) const;

  const dataset::Dataset& data_;
  std::vector<int64_t> lengths_;  // by row; none where all rows are alike
  size_t longest_row_ = 0;
  bool vary_ = false;
  double rows_of_run_ = 0;          // of all epochs, or of all steps
  double least_micro_batches_ = 1;  // of all steps, however many rows each has
  parallel::MicroBatch first_;      // of the data, where they are
};

}  // namespace convoy::planner
