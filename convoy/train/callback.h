#pragma once

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/data/stream.h"
#include "convoy/job/placement.h"
#include "convoy/options/arguments.h"
#include "convoy/parallel/buffers/types.h"
#include "convoy/parallel/memory_use.h"

namespace convoy::job {
struct Job;
}  // namespace convoy::job

namespace convoy::train {

/// Settings of a run that is about to begin.
struct RunInfo {
  const job::Job* job = nullptr;
  const options::TrainingArguments* arguments = nullptr;
  int64_t num_examples = 0;
  int64_t num_parameters = 0;
  int64_t num_trainable_parameters = 0;
  int64_t per_device_batch = 0;
  int64_t total_batch = 0;  ///< rows per optimizer step: devices x accumulation x per device
  int64_t steps_per_epoch = 0;
  int64_t max_steps = 0;
  int64_t last_step = 0;   ///< below max_steps with stop_steps
  int64_t first_step = 0;  ///< above 0 when resuming
  std::string resumed_from;
  double last_save = 0;              ///< seconds that its last checkpoint took to write; 0: unknown
  std::string pipeline;              ///< blocks of each stage; "": one holds all
  parallel::MemoryUse memory;        ///< that each rank holds
  std::vector<int64_t> stage_bytes;  ///< of these, state of a rank of each stage of a pipeline
  std::string memory_copies;  ///< how often the state is copied to memory, or why not; "": untold
  int64_t most_gathered = 0;  ///< bytes of weights that each rank gathers at a time
  std::vector<job::RankPlacement> placements;  ///< place of each rank
  std::vector<data::RankShare> shares;         ///< rows and batches of each rank
  std::vector<std::string> warnings;
};

/// A log line: what Hugging Face's Trainer logs, and how fast it goes.
struct LogRecord {
  int64_t step = 0;
  int64_t max_steps = 0;
  double epoch = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  double samples_per_second = 0;  ///< over all ranks
  double data_wait_percent = 0;   ///< of the time, waiting for data
  double comm_wait_percent = 0;  ///< of the time, in communication that was not hidden; NaN on GPUs
  double loss_scale = 0;         ///< of fp16; 0 = not in use
  int64_t skipped_steps = 0;     ///< so far, because a gradient overflowed fp16
  int64_t memory_bytes = 0;      ///< of this process now
  parallel::MemoryUse memory;    ///< of a rank since the last line
  int64_t device_memory_bytes = 0;  ///< most that tensors took on a GPU so far; 0 without one
  double seconds_left = 0;
  double peak_percent = NAN;  ///< computing speed, of what products reach here; NaN = not known
  double goodput = NAN;       ///< part of the job's time in steps that count, over all its starts
  double floor_times = NAN;   ///< time, as multiple of what the step needs at the least
  std::string rows_sum;       ///< of all rows read so far; "": not added up
  /// Means of what the model tells beside the loss (nn::Block::metrics), in its order.
  std::vector<std::pair<std::string, double>> metrics;

  Json to_json() const;
};

/// One optimizer step, timed on this process.
struct StepTiming {
  int64_t step = 0;
  double loss = 0;           ///< mean over its targets on all ranks; NaN: it had none
  double seconds = 0;        ///< since the step before ended, data loading included
  double data_wait = 0;      ///< of these, waiting for data
  double comm_wait = 0;      ///< of these, in communication that was not hidden
  int64_t samples = 0;       ///< over all ranks
  int64_t local_tokens = 0;  ///< valid positions on this process
};

using Metrics = std::map<std::string, double>;

/// Metrics as JSON has them, where null stands for a number that is not finite.
Metrics metrics_from_json(const Json& json);

/// Watches a run. Called on the main rank only.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_train_begin(const RunInfo&) {}
  virtual void on_step(const StepTiming&) {}
  virtual void on_log(const LogRecord&) {}
  /// An evaluation is under way: samples done so far, and all.
  virtual void on_evaluate_step(int64_t /*done*/, int64_t /*samples*/) {}
  virtual void on_evaluate(const Metrics&, int64_t /*step*/) {}
  /// Checksum of each weight after a step, by name.
  virtual void on_weight_sums(const std::map<std::string, uint64_t>&, int64_t /*step*/) {}
  virtual void on_save(const std::filesystem::path&) {}
  /// Called when the output folder was moved away: the run continues in a new one of its name,
  /// which it locks.
  virtual void on_new_output() {}
  /// Called with a message that the user should know: training stopped early, the best model was
  /// loaded.
  virtual void on_message(const std::string&) {}
  virtual void on_train_end(const Metrics&) {}
};

}  // namespace convoy::train
