#pragma once

#include <ATen/core/Tensor.h>

#include "convoy/plan/cluster.h"
#include "convoy/train/setup/arguments.h"
#include "convoy/train/setup/job.h"

namespace convoy::train {

/// Bytes that this rank's tensors may take on its GPU: an equal share, among the ranks of `group`
/// that compute there, of the free memory less what a training's libraries will take. Collective.
int64_t free_for_tensors(at::Device gpu, const comm::Group& group);

/// The GPUs of ranks that have met, each with rates measured while the others were busy, too:
/// products of the training's type, copies, sums over the ranks; the slowest rank counts. Takes
/// some seconds. Collective.
plan::Cluster these_gpus(const TrainingArguments& arguments, const Job& met, const MetRanks& ranks);

}  // namespace convoy::train
