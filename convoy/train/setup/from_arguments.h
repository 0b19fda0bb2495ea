#pragma once

#include <string>

#include "convoy/parallel/run/replica.h"
#include "convoy/profile/profile.h"
#include "convoy/train/batches.h"
#include "convoy/train/setup/arguments.h"

namespace convoy::train {

/// Options of a replica from the arguments; the job sets its device and offloading. Throws
/// UsageError for options that have no effect without stages.
parallel::ReplicaOptions replica_options(const TrainingArguments& arguments, bool trains);

/// Options for running blocks to learn their costs; for one rank that is alone.
profile::ProfileOptions profile_options(const TrainingArguments& arguments);

/// Options for reading training data, or evaluation data; for one rank that is alone.
StreamOptions stream_options(const TrainingArguments& arguments, bool training);

/// First micro-batch of the first of `num_ranks` ranks; empty where there are no rows.
parallel::MicroBatch first_batch(const TrainingArguments& arguments, const Dataset& data,
                                 int num_ranks);

/// Inputs of a pipeline's plan, which all ranks must have alike.
struct PipelineInputs {
  /// Costs of each block for a micro-batch: counted with rows of the data, or read from
  /// pipeline_costs. Empty without a pipeline, without rows, and for a user's modules.
  std::vector<schedule::BlockCounts> counts;
  std::string csv;  ///< content of pipeline_schedule_file
};

/// Reads files and counts, on this rank alone. Throws UsageError for a file that is not of this
/// model.
PipelineInputs pipeline_inputs(const parallel::ModelFactory& factory,
                               const TrainingArguments& arguments, const Dataset* data);

/// Moves the inputs to where a run has them.
void take(PipelineInputs inputs, schedule::Parallelism& parallelism,
          std::vector<schedule::BlockCounts>& counts);

/// Blocks of each stage: 0-3 | 4-7.
std::string stages_text(const schedule::Layout& layout);

/// Sentence with the schedule that was found or read, the blocks of each stage, and the size of the
/// bubble; "" without stages.
std::string pipeline_text(const schedule::RunPlan& plan, const schedule::Parallelism& parallelism);

/// The schedule of the stages, as pipeline_schedule_file takes it; "" without stages, and where
/// nothing is trained.
std::string pipeline_csv(const schedule::RunPlan& plan);

}  // namespace convoy::train
