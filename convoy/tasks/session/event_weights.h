#pragma once

#include <string>

#include "convoy/data/parquet_files.h"
#include "convoy/formats/schema.h"
#include "convoy/tasks/session/session_arguments.h"

namespace convoy::tasks {

/// Gives the model the column of train.event_weights and, of a categorical one, the weight of each
/// value. Throws UsageError that names the option.
void take_event_weights(SessionArguments& arguments, const formats::Schema& schema);

/// Counts the weights of the events of a training file, a few rows at a time.
class EventWeightsSurvey {
 public:
  /// Takes the `weights` of a model whose training data this is.
  EventWeightsSurvey(const data::ParquetFiles& data, const models::EventWeights& weights)
      : data_(data), weights_(weights) {}

  bool empty() const { return weights_.column.empty(); }
  /// Returns the weight of value i of the column; 1 where there is none.
  double of(const data::Rows& rows, int64_t i) const;
  /// Counts the weights of the events of `rows`, the first of which is row `first` of the data.
  /// `items` tells where padding begins. Throws FileError on a negative weight.
  void add(const data::Rows& rows, const data::Column& items, int64_t first);
  /// Counts the weight of an event that is a target.
  void add_target(double weight) { of_targets_ += weight; }
  /// Checks that some target has a weight. Throws FileError where none has.
  void finish() const;
  /// Returns a sentence for the user; "" without weights.
  std::string note() const;

 private:
  const data::ParquetFiles& data_;
  const models::EventWeights& weights_;
  int64_t num_events_ = 0, num_zeros_ = 0;
  double sum_ = 0, of_targets_ = 0;
};

}  // namespace convoy::tasks
