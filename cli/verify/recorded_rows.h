#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "convoy/tasks/task.h"

namespace convoy::cli {

/// Rows that a training reads, as Hugging Face's model takes them.
class RecordedRows {
 public:
  /// Records the first `steps` steps of `run`, whose model draws by `seed`.
  RecordedRows(tasks::Run run, uint64_t seed, int64_t steps);

  /// Returns the run's data, which are recorded while they are read.
  std::shared_ptr<dataset::Dataset> data() const;
  /// Writes a safetensors file with tensors STEP.MICRO_BATCH.INPUT, all counted from 0.
  void write(const std::filesystem::path& file) const;

 private:
  struct Record;
  std::shared_ptr<Record> record_;
};

}  // namespace convoy::cli
