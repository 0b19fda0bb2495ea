#pragma once

#include <string>

#include "convoy/train/loop/streams.h"

namespace convoy::train {

/// Chooses how many rows a micro-batch of a training has, by the memory that they take.
class BatchSizer {
 public:
  /// Keeps references: all arguments must outlive this object. `train_data` may be null: nothing is
  /// trained.
  BatchSizer(RunContext& run, const parallel::ModelFactory& factory,
             const dataset::Dataset* train_data);

  /// Sets micro-batches and accumulation before the model is made: by auto_find_batch_size the
  /// largest that fits, and what global_batch_size asks for. Collective.
  void set_batch();

  /// Rows of the largest smaller micro-batch that makes the same step; 0: there is none.
  int64_t fewer_rows() const;
  /// Takes smaller micro-batches on all ranks after a step that was too large for `short_rank`, and
  /// reads the step's rows again.
  void step_down(TrainingStream& stream, int short_rank);
  /// Takes the micro-batches that the run's state tells of an earlier start of this job, which may
  /// have stepped down: others would give other bits. Then writes the own ones into the state.
  void take_up(TrainingStream& stream);

  /// Whether an error tells that device_memory ended a step.
  bool ran_out(const std::exception& error) const;
  /// Memory in use when a step went beyond device_memory, the estimate, and options that would fit.
  std::string beyond_device_memory(const parallel::MemoryUse& fact) const;

 private:
  void find();
  void use_rows(int64_t rows);
  std::string estimate_beside(const parallel::MemoryUse& fact, int64_t limit) const;

  RunContext& run_;
  const parallel::ModelFactory& factory_;
  const dataset::Dataset* train_data_;
  bool holds_batch_;  // global_batch_size was given
};

/// Ranks that share this host's memory.
int ranks_here(const job::Job& job);

}  // namespace convoy::train
