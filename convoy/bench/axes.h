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

// The ways in which FlexFlow (Jia et al., 2018) shares out a step: samples, operators, attributes
// of a sample, parameters.
namespace convoy::bench {

struct AxesOptions {
  int num_ranks = 2;
  int64_t rows = 10;   ///< of a step
  int64_t steps = 10;  ///< that are timed
};

/// A step that is shared out along one axis, or on one device.
struct AxisTrial {
  std::string axis;   ///< "sample"; "" for one device
  std::string share;  ///< the part of a rank: "5 x 512"
  parallel::Parallelism split;
  planner::Prediction predicted = {};
  MeasuredStep measured = {};
  std::string refused = {};  ///< reason why the model does not run so

  bool went_well() const { return measured.seconds > 0; }
  planner::TimedSplit time() const { return {predicted.seconds, measured.seconds}; }
  planner::TimedSplit memory() const {
    return {static_cast<double>(predicted.memory.sum()), measured.memory_bytes};
  }
};

/// Time that placing operators of one block on different ranks could save.
struct OperatorBound {
  double seconds = 0;        ///< of all blocks, one operator after the other
  double least_seconds = 0;  ///< if all operators that need nothing of each other ran at once
  int64_t operators = 0;
};

struct AxesReport {
  int num_ranks = 2;
  int64_t rows = 0, positions = 0;
  std::vector<AxisTrial> trials;  ///< first that of one device
  OperatorBound bound;

  /// Relative difference of a training's last loss from that of one device.
  double loss_off(const AxisTrial& trial) const;
};

/// Predicts a step of `rows` rows on one device and along each axis, and lets `train` time it in
/// fresh ranks.
AxesReport compare_axes(
    const tasks::Run& run, const options::TrainingArguments& arguments, const AxesOptions& options,
    const std::function<MeasuredStep(const parallel::Parallelism& split)>& train,
    const ProgressFn& progress = {});

std::string to_text(const AxesReport& report);
Json to_json(const AxesReport& report);

}  // namespace convoy::bench
