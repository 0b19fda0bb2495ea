#pragma once

#include <filesystem>
#include <string>

#include "convoy/parallel/run_plan/run_plan.h"
#include "convoy/report/timeline.h"

namespace convoy::cli {

/// Neighbouring blocks of a micro-batch as one bar.
report::Timeline bars_of(const parallel::Timeline& timeline, const parallel::Layout& layout);

/// A training's trace, and what it is compared with.
struct TraceAsked {
  std::filesystem::path file;  ///< rank 0's
  std::string schedule;
  bool in_seconds = false;  ///< the plan's times are, and not in products
};

/// Prints how a step of the trace went beside its simulation, and draws both into the file `plot`
/// unless that is empty.
int show_trace(const TraceAsked& asked, const parallel::RunPlan& plan, const std::string& plot);

}  // namespace convoy::cli
