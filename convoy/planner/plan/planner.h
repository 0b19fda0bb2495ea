#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/progress.h"
#include "convoy/dataset/batches.h"
#include "convoy/options/arguments.h"
#include "convoy/parallel/buffers/types.h"
#include "convoy/planner/cost/block_costs.h"
#include "convoy/planner/cost/target.h"
#include "convoy/planner/search/search.h"

namespace convoy::planner {

/// Costs of blocks that ran without arithmetic, for plans of one run on other devices: by the
/// numbers of rows that ran.
using TracedBlocks = std::map<std::vector<int64_t>, std::shared_ptr<BlockCosts>>;

/// Request for a plan.
struct PlanRequest {
  int num_ranks = 0;  ///< 0: those of the profile, or usual_ranks()
  Target where = {};
  int64_t most_rows = 0;  ///< of a micro-batch; 0: 64 on this host, 1,024 on other devices
  /// Rows of micro-batches, ascending, whose costs are measured on hosts like this one; between
  /// them costs are interpolated; empty: 1, 2, 4, 8.
  std::vector<int64_t> sizes = {};
  std::shared_ptr<TracedBlocks> traced = {};  ///< of plans before; null: nothing is kept
  int threads = 0;  ///< of a rank; 0: parallel.threads, or of this host its cores shared out
};

/// A search, with everything that it was made from.
struct PlanReport {
  bool is_like_this_host = true;  ///< its times were measured
  std::string what;               ///< a line on model, step and cluster
  std::string how_known;          ///< origin of the times
  ModelCosts numbers;
  Cluster cluster;
  SearchSpace space;
  SearchResult found;
  /// Source of the costs; measured ones are this host's.
  std::shared_ptr<BlockCosts> costs;
};

/// Makes a report without the search. Throws UsageError where a request contradicts itself.
PlanReport prepare_plan(const parallel::ModelFactory& factory, options::TrainingArguments arguments,
                        const dataset::Dataset& data, const PlanRequest& request);

/// Plans a training of `arguments`: precision, optimizer, buckets and the like hold; batch and
/// parallelism are searched for. Throws UsageError where a request contradicts itself.
PlanReport make_plan(const parallel::ModelFactory& factory, options::TrainingArguments arguments,
                     const dataset::Dataset& data, const PlanRequest& request,
                     const ProgressFn& progress);

}  // namespace convoy::planner
