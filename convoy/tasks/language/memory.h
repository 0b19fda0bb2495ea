#pragma once

#include "convoy/models/causal.h"
#include "convoy/train/arguments.h"

namespace convoy::tasks {

/// Throws UsageError when training this model does not fit into the machine's memory, before any of
/// it is taken.
void check_memory(const models::CausalConfig& config, const train::ParallelArguments& parallel);

}  // namespace convoy::tasks
