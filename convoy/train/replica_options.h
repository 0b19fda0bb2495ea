#pragma once

#include "convoy/parallel/replica.h"
#include "convoy/train/arguments.h"

namespace convoy::train {

/// What the arguments say of a replica; its device and what is offloaded are for the job to say.
parallel::ReplicaOptions replica_options(const TrainingArguments& arguments, bool trains);

}  // namespace convoy::train
