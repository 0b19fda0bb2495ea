#pragma once

#include <ATen/core/Tensor.h>

#include "convoy/job/job.h"
#include "convoy/options/arguments.h"
#include "convoy/planner/time/cluster.h"

namespace convoy::planner {

/// Bytes that this rank's tensors may take on its GPU: an equal share, among the ranks of `group`
/// that compute there, of the free memory less what a training's libraries will take. Collective.
int64_t free_for_tensors(at::Device gpu, const comm::Group& group);

/// Returns the GPUs of ranks that have met, each with rates measured while the others were busy,
/// too: products of the training's type, copies, sums over the ranks; the slowest rank counts.
/// Takes some seconds. Collective.
Cluster these_gpus(const options::TrainingArguments& arguments, const job::Job& met,
                   const job::MetRanks& ranks);

}  // namespace convoy::planner
