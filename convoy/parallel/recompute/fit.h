#pragma once

#include <set>
#include <string>

#include "convoy/parallel/pipeline/plan.h"

namespace convoy::parallel {

/// A pipeline that fits, with the blocks that it recomputes for that.
struct FittedPlan {
  PipelinePlan plan;
  std::set<int64_t> recomputed;  ///< blocks
  std::string schedule;          ///< its name; empty: it has none
};

/// Plans a pipeline like plan_pipeline(), but lets no stage keep more than `options.memory` bytes.
/// Recomputes the fewest of the `repeatable` blocks with which each schedule fits; with auto the
/// fastest of the fitting schedules is taken. Throws UsageError where no recomputation is enough.
FittedPlan plan_to_fit(const Costs& by_block, const PlanOptions& options,
                       const std::set<int64_t>& repeatable);

/// Plans a pipeline that fits, of blocks that are cut already.
FittedPlan plan_to_fit(const Cut& cut, const Costs& by_block, const PlanOptions& options,
                       const std::set<int64_t>& repeatable);

/// Name of the schedule that gives these orders, of those that do not search; empty: none does.
std::string schedule_named(const Pipe& pipe, const Orders& orders);

}  // namespace convoy::parallel
