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

/// As plan_pipeline(), but no stage keeps more than `options.memory` bytes: of `repeatable` blocks
/// the fewest are recomputed that make each schedule fit, and with auto the fastest of those is
/// taken. Throws UsageError where nothing is enough.
FittedPlan plan_to_fit(const Costs& by_block, const PlanOptions& options,
                       const std::set<int64_t>& repeatable);

/// As above, for blocks that are cut already.
FittedPlan plan_to_fit(const Cut& cut, const Costs& by_block, const PlanOptions& options,
                       const std::set<int64_t>& repeatable);

/// Name of the schedule that gives these orders, of those that do not search; empty: none does.
std::string schedule_named(const Pipe& pipe, const Orders& orders);

}  // namespace convoy::parallel
