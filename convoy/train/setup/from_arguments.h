#pragma once

#include <string>

#include "convoy/parallel/run/replica.h"
#include "convoy/profile/profile.h"
#include "convoy/train/batches.h"
#include "convoy/train/setup/arguments.h"

namespace convoy::train {

/// What the arguments say of a replica; its device and what is offloaded are for the job to say.
/// Throws UsageError for what has no effect without stages.
parallel::ReplicaOptions replica_options(const TrainingArguments& arguments, bool trains);

/// How blocks are run to learn what they cost; by one rank that is alone.
profile::ProfileOptions profile_options(const TrainingArguments& arguments);

/// How training data is read, or evaluation data, by one rank that is alone.
StreamOptions stream_options(const TrainingArguments& arguments, bool training);

/// What the first of `num_ranks` ranks computes first; empty where there are no rows.
parallel::MicroBatch first_batch(const TrainingArguments& arguments, const Dataset& data,
                                 int num_ranks);

/// What is known of a pipeline before it is made, which all ranks must have alike.
struct PipelineInputs {
  /// Of each block for a micro-batch: counted with rows of the data, or read from pipeline_costs.
  /// Empty without a pipeline, without rows, and for a user's modules.
  std::vector<schedule::BlockCounts> counts;
  std::string csv;  ///< what pipeline_schedule_file holds
};

/// Reads files and counts, on this rank alone. Throws UsageError for a file that is not of this
/// model.
PipelineInputs pipeline_inputs(const parallel::ModelFactory& factory,
                               const TrainingArguments& arguments, const Dataset* data);

/// Makes them part of a run's options.
void take(PipelineInputs inputs, schedule::RunOptions& options);

/// Which blocks each stage holds: 0-3 | 4-7.
std::string stages_text(const schedule::Layout& layout);

/// The schedule that was found or read, which blocks each stage holds, and how large the bubble is;
/// "" without stages.
std::string pipeline_text(const schedule::RunPlan& plan, const schedule::RunOptions& options);

/// The schedule of the stages, as pipeline_schedule_file takes it; "" without stages, and where
/// nothing is trained.
std::string pipeline_csv(const schedule::RunPlan& plan);

}  // namespace convoy::train
