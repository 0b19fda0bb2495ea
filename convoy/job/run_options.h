#pragma once

#include "convoy/data/stream.h"
#include "convoy/options/arguments.h"
#include "convoy/parallel/run/replica.h"

namespace convoy::job {

/// Options of a replica from the arguments; the job sets its device and offloading. Throws
/// UsageError for options that have no effect without stages.
parallel::ReplicaOptions replica_options(const options::TrainingArguments& arguments, bool trains);

/// Options of a replica in training without those that a plan decides: as the run says them, these
/// may not fit each other yet.
parallel::ReplicaOptions any_split_options(options::TrainingArguments arguments);

/// Options for reading training data, or evaluation data; for one rank that is alone.
data::StreamOptions stream_options(const options::TrainingArguments& arguments, bool training);

}  // namespace convoy::job
