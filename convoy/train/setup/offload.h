#pragma once

#include <string>
#include <vector>

#include "convoy/parallel/offload/offload.h"
#include "convoy/train/setup/job.h"

namespace convoy::train {

/// Options of offloading from the arguments. Throws UsageError for a place without a folder or a
/// GPU, gradients or weights that are not sharded, and replicas that share their state. Without
/// training only weights count.
parallel::OffloadOptions offload_options(const ParallelArguments& arguments, const Job& job,
                                         bool trains);

/// Throws UsageError for a place that is not there: a CPU's memory beside itself, a disk without a
/// folder. `where`: who looks for it; "": nobody does.
void check_offload_places(const ParallelArguments& arguments, at::Device device,
                          const std::string& where);

/// Sentences for the start of a run.
std::vector<std::string> offload_warnings(const ParallelArguments& arguments);

}  // namespace convoy::train
