#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/base/progress.h"
#include "convoy/bench/run_step.h"
#include "convoy/planner/search/accuracy.h"
#include "convoy/planner/time/predict.h"
#include "convoy/tasks/task.h"

namespace convoy::bench {

struct BatchOptions {
  int num_ranks = 1;
  std::vector<int64_t> rows = {};  ///< of micro-batches; empty: 1, 2, 4 and so on
  int64_t most_rows = 64;          ///< of those
  int64_t steps = 10;              ///< that are timed
};

/// Step with one micro-batch size: its predicted and its measured time and memory.
struct BatchTrial {
  parallel::Parallelism parallelism;
  int64_t step_rows = 1;  ///< of all ranks
  planner::Prediction predicted;
  MeasuredStep measured = {};

  bool went_well() const { return measured.seconds > 0; }
  planner::TimedSplit time() const { return {predicted.seconds, measured.seconds}; }
  planner::TimedSplit memory() const {
    return {static_cast<double>(predicted.memory.sum()), measured.memory_bytes};
  }
};

/// A run with one micro-batch after the other.
struct BatchReport {
  std::string what;  ///< spread of the run: "2 data, zero 1"
  std::vector<BatchTrial> trials;
  std::string stopped;  ///< reason why larger ones were not tried; "": all were
};

/// Predicts steps of a run on this host and lets `train` time them in fresh ranks, with one number
/// of rows after the other, until one does not fit, does not go into the run's step or fails.
/// Throws UsageError where that is so of the first, and where the options do not go together.
BatchReport try_batches(const tasks::Run& run, const options::TrainingArguments& arguments,
                        const BatchOptions& options,
                        const std::function<MeasuredStep(int64_t rows)>& train,
                        const ProgressFn& progress = {});

/// Text for a person: a table, the errors of predictions, and the fastest size.
std::string to_text(const BatchReport& report);
Json to_json(const BatchReport& report);

}  // namespace convoy::bench
