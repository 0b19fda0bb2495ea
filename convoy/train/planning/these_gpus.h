#pragma once

#include <ATen/core/Tensor.h>

#include "convoy/plan/cluster.h"
#include "convoy/train/setup/arguments.h"
#include "convoy/train/setup/job.h"

namespace convoy::train {

/// What this rank's tensors may take of its GPU: of what is free now, but for what a training's
/// libraries will take, an equal share of the ranks of `group` that compute there. Collective.
int64_t free_for_tensors(at::Device gpu, const comm::Group& group);

/// The GPUs of ranks that have met, each with what it was measured to do while the others were,
/// too: products of the training's type, copies, sums over the ranks; the least that a rank has
/// counts. Takes some seconds. Collective.
plan::Cluster these_gpus(const TrainingArguments& arguments, const Job& met, const MetRanks& ranks);

}  // namespace convoy::train
