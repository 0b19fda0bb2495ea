#pragma once

#include <string>

#include "convoy/parallel/replica.h"
#include "convoy/train/arguments.h"

namespace convoy::train {

/// How the stages of a pipeline take turns, and which blocks they hold. Throws UsageError for what
/// has no effect without stages, and for splits that are no numbers.
parallel::PipelineOptions pipeline_options(const ParallelArguments& arguments);

/// Which blocks each stage holds: 0-3 | 4-7.
std::string stages_text(const schedule::Layout& layout);

/// Which blocks each stage holds, and how long a step stands still; "" without stages.
std::string pipeline_text(parallel::Replica& replica, const ParallelArguments& arguments);

}  // namespace convoy::train
