#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "cli/program.h"
#include "convoy/job/job.h"
#include "convoy/train/trainer.h"

namespace convoy::cli {

/// Result of a training.
struct Trained {
  int exit_code = 0;         ///< not 0: a signal stopped it
  train::Metrics evaluated;  ///< of its end; empty without evaluation data
};

/// Weights and moments that a new run begins with.
struct Start {
  std::filesystem::path weights;  ///< the folder of a model; "" = its own
  std::filesystem::path moments;  ///< a checkpoint, for those of the optimizer; "" = none
  std::map<std::string, std::string> texts;  ///< of more files in its folder, by their names
  bool evaluates = true;                     ///< whether its end is evaluated
};

/// Trains as `configured` says, with a job that was joined, and evaluates at the end. `plan`: text
/// of its plan file, or "".
Trained train_run(Configured& configured, const job::Job& job, const Start& start,
                  const std::string& plan);

}  // namespace convoy::cli
