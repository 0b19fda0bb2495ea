#pragma once

#include <string>

#include "convoy/parallel/run_plan/run_plan.h"

namespace convoy::parallel {

/// Blocks of each stage: 0-3 | 4-7.
std::string stages_text(const Layout& layout);

/// Sentence with the schedule that was found or read, the blocks of each stage, and the size of the
/// bubble; "" without stages.
std::string pipeline_text(const RunPlan& plan, const Parallelism& parallelism);

/// Returns the schedule of the stages, as pipeline_schedule_file takes it; "" without stages, and
/// where nothing is trained.
std::string pipeline_csv(const RunPlan& plan);

}  // namespace convoy::parallel
