#pragma once

#include <cstdint>

#include "convoy/base/json.h"
#include "convoy/tasks/task.h"

namespace convoy::bench {

/// Rate at which one rank's loader delivers padded batches.
struct LoaderTimes {
  int64_t epochs = 0;
  int64_t rows = 0;  ///< of all epochs
  double rows_per_second = 0;
  double first_epoch_rows_per_second = 0;
  double first_batch_ms = 0;
};

/// Reads the training data `epochs` times without training.
LoaderTimes time_loader(tasks::Task& task, options::TrainingArguments arguments, int64_t epochs);

Json to_json(const LoaderTimes& times);

}  // namespace convoy::bench
