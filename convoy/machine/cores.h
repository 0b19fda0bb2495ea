#pragma once

#include <string_view>

#include "convoy/machine/cgroup.h"
#include "convoy/machine/limits.h"

namespace convoy::machine {

/// Number of cores a process can keep busy: those that it may run on, within a quota of CPU time.
int usable_cores(const CgroupLimits& cgroup, const Limits& limits);
int usable_cores();  ///< of this process

/// Returns the share of one of `num_ranks` ranks on this host, at least 1: where all may run on the
/// same cores a part of them, where each is bound to some of its own, these.
int cores_per_rank(int num_ranks);

/// Reads a number of ranks: a number, "gpu" (one each), "cpu" (one a core) or "auto" (GPUs if there
/// are any, else cores). Throws UsageError.
int resolve_num_ranks(std::string_view text);

}  // namespace convoy::machine
