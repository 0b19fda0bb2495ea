#pragma once

#include <algorithm>
#include <optional>
#include <set>

#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::parallel {

/// Settings of a pipeline's plan.
struct PlanOptions {
  Parallelism parallelism = {};  ///< its stages, micro-batches, schedule and virtual stages
  /// Bytes that a rank may keep for backward with auto; 0: as many as with 1f1b.
  double memory = 0;
  std::set<int64_t> recomputed = {};  ///< blocks
  KnownPipes* known = nullptr;        ///< cache of earlier cuts and orders; null: none
};

/// Blocks of each rank, and its actions in their order.
struct PipelinePlan {
  Cut cut;  ///< empty: there are no blocks
  Pipe pipe;
  Orders orders;
  Played played;
  double floor = 0;  ///< no schedule of these virtual stages is faster

  double above_floor() const {
    return floor > 0 ? std::max(0.0, played.length / floor - 1) : 0;  // but for rounding
  }
};

/// Cuts blocks by cost and makes the schedule; with auto the fastest over all numbers of virtual
/// stages and placements that are allowed. Throws UsageError where there are fewer blocks than
/// virtual stages, where a v is asked for that has not two virtual stages, and where no schedule
/// keeps as few bytes as asked.
PipelinePlan plan_pipeline(const Costs& by_block, const PlanOptions& options);

/// Plans a pipeline like plan_pipeline(), without a model: each virtual stage has an equal part of
/// its stage's costs.
PipelinePlan plan_stages(const Costs& by_stage, const PlanOptions& options);

}  // namespace convoy::parallel
