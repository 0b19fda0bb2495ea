#pragma once

#include <memory>

#include "convoy/job/job.h"
#include "convoy/launch/error_file.h"
#include "convoy/options/arguments.h"
#include "convoy/parallel/strategy/strategy.h"
#include "convoy/train/callback_handler.h"
#include "convoy/train/state.h"

namespace convoy::train {

// Internal to the component.

/// Options, ranks, model and progress of a run, which all parts of its loop share.
struct RunContext {
  options::TrainingArguments arguments;
  job::Job job;
  CallbackHandler callbacks;
  std::unique_ptr<parallel::Strategy> strategy = nullptr;
  TrainerState state = {};
  double began_at = launch::wall_time();  ///< seconds since 1970

  bool leaves_checkpoints() const {
    return arguments.save_strategy != "no" && !arguments.output.dir.empty();
  }
  /// Whether sums of rows and weights are written for `convoy compare`.
  bool keeps_sums() const { return !arguments.output.dir.empty(); }
};

}  // namespace convoy::train
