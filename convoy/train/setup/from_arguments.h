#pragma once

#include <string>

#include "convoy/parallel/run/replica.h"
#include "convoy/train/batches.h"
#include "convoy/train/setup/arguments.h"

namespace convoy::train {

/// What the arguments say of a replica; its device and what is offloaded are for the job to say.
/// Throws UsageError for what has no effect without stages.
parallel::ReplicaOptions replica_options(const TrainingArguments& arguments, bool trains);

/// How training data is read, or evaluation data, by one rank that is alone.
StreamOptions stream_options(const TrainingArguments& arguments, bool training);

/// What the first of `num_ranks` ranks computes first; empty where there are no rows.
parallel::MicroBatch first_batch(const TrainingArguments& arguments, const Dataset& data,
                                 int num_ranks);

/// What stages of a pipeline are cut by: the products of each block for a row of the data. Empty
/// without a pipeline, without rows, and for a user's modules.
std::vector<schedule::Products> products_of(const parallel::ModelFactory& factory,
                                            const TrainingArguments& arguments,
                                            const Dataset& data);

/// Which blocks each stage holds: 0-3 | 4-7.
std::string stages_text(const schedule::Layout& layout);

/// Which blocks each stage holds, and how large the bubble is; "" without stages.
std::string pipeline_text(const schedule::RunPlan& plan, const ParallelArguments& arguments);

}  // namespace convoy::train
