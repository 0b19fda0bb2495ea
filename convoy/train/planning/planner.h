#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/progress.h"
#include "convoy/parallel/run/types.h"
#include "convoy/plan/search.h"
#include "convoy/train/batches.h"
#include "convoy/train/planning/block_costs.h"
#include "convoy/train/planning/where.h"
#include "convoy/train/setup/arguments.h"

namespace convoy::train {

/// What blocks cost that ran without arithmetic, for plans of one run on other devices: by rows of
/// micro-batches that ran.
using TracedBlocks = std::map<std::vector<int64_t>, std::shared_ptr<BlockCosts>>;

/// What a plan is asked for.
struct PlanRequest {
  int num_ranks = 0;  ///< 0: those of the profile, or usual_ranks()
  Where where = {};
  int64_t most_rows = 0;  ///< of a micro-batch; 0: 64 on this host, 1,024 on other devices
  /// On hosts like this one: rows of micro-batches, ascending, whose costs are measured, of others
  /// they grow evenly; empty: 1, 2, 4, 8.
  std::vector<int64_t> sizes = {};
  std::shared_ptr<TracedBlocks> traced = {};  ///< of plans before; null: nothing is kept
  int threads = 0;  ///< of a rank; 0: parallel.threads, or of this host its cores shared out
};

/// A search, with all that it was made of.
struct PlanReport {
  bool is_like_this_host = true;  ///< its times were measured
  std::string what;               ///< a line on model, step and cluster
  std::string how_known;          ///< where the times come from
  plan::Numbers numbers;
  plan::Cluster cluster;
  plan::Wishes wishes;
  plan::Found found;
  /// What costs are asked of; what was measured, of this host.
  std::shared_ptr<BlockCosts> costs;
};

/// All of a report but what a search finds. Throws UsageError where a request does not go together.
PlanReport prepare_plan(const parallel::ModelFactory& factory, TrainingArguments arguments,
                        const Dataset& data, const PlanRequest& request);

/// Plans a training of `arguments`, of which precision, optimizer, buckets and the like hold, and
/// batch and parallelism are searched for. Throws UsageError where a request does not go together.
PlanReport make_plan(const parallel::ModelFactory& factory, TrainingArguments arguments,
                     const Dataset& data, const PlanRequest& request, const ProgressFn& progress);

}  // namespace convoy::train
