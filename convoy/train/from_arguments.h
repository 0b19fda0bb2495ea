#pragma once

#include "convoy/parallel/replica.h"
#include "convoy/train/arguments.h"
#include "convoy/train/batches.h"

namespace convoy::train {

/// What the arguments say of a replica; its device and what is offloaded are for the job to say.
parallel::ReplicaOptions replica_options(const TrainingArguments& arguments, bool trains);

/// How training data is read, or evaluation data, by one rank that is alone.
StreamOptions stream_options(const TrainingArguments& arguments, bool training);

}  // namespace convoy::train
