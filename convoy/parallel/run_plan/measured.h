#pragma once

#include <filesystem>
#include <vector>

#include "convoy/parallel/run_plan/run_plan.h"

namespace convoy::parallel {

/// Returns the steps that a training recorded with `--trace`, in seconds from the first block of
/// each: what each stage computed, of the ranks that share the data the first. `trace` is rank 0's
/// file; those of the other stages lie beside it. Throws FileError where one cannot be read,
/// UsageError where they have no whole step of this plan: stages computed other blocks, or in
/// another order.
std::vector<Timeline> measured_steps(const std::filesystem::path& trace, const RunPlan& plan);

}  // namespace convoy::parallel
