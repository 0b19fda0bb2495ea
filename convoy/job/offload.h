#pragma once

#include <string>
#include <vector>

#include "convoy/job/job.h"
#include "convoy/parallel/offload/torch/offload.h"

namespace convoy::job {

/// Options of offloading from the arguments. Throws UsageError where these do not go together, and
/// for a place that is not there. Without training only weights count.
parallel::OffloadOptions offload_options(const options::ParallelArguments& arguments,
                                         const Job& job, bool trains);

/// Throws UsageError for a place that is not there: a CPU's memory beside itself, a folder that is
/// none. `where`: who looks for it; "": nobody does.
void check_offload_places(const parallel::OffloadOptions& offload, at::Device device,
                          const std::string& where);

/// Sentences for the start of a run.
std::vector<std::string> offload_warnings(const options::ParallelArguments& arguments);

}  // namespace convoy::job
