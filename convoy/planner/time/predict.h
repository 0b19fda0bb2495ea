#pragma once

#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "convoy/parallel/run_plan/plan_again.h"
#include "convoy/planner/time/cluster.h"
#include "convoy/planner/time/group_times.h"
#include "convoy/planner/time/share.h"

namespace convoy::planner {

using parallel::BlockCost;

/// Results that a search needs again and again, for one model and its blocks' costs.
struct SearchCache {
  parallel::KnownChoices choices;
  KnownGroups groups;
  /// Cuts by stages, virtual stages of a rank, their placement, and whether blocks are recomputed.
  std::map<std::tuple<int, int, parallel::Placement, bool>, parallel::Cut> cuts;
  using Shares = std::pair<int64_t, int64_t>;            ///< tensor ranks and expert ranks
  std::map<Shares, std::vector<double>> elements;        ///< of each block
  std::map<Shares, std::vector<double>> beside_experts;  ///< of those that all expert ranks have
  std::map<Shares, double> read_in_backward;             ///< elements of all blocks
};

/// Costs by block of a rank of `mesh`: where ranks share out experts, with the rows that it sends
/// to them, and keeps of others'.
std::vector<BlockCost> with_expert_rows(std::vector<BlockCost> blocks,
                                        const parallel::ModelDecl& model,
                                        const parallel::Mesh& mesh);

/// A model and the costs of computing it. Deterministic: the same question has the same answer.
struct ModelCosts {
  parallel::ModelDecl model;
  /// Returns the costs by block, for a rank's share of a micro-batch: memory, and seconds of
  /// computing alone.
  std::function<std::vector<BlockCost>(const BlockShare& share)> blocks;
  double update_seconds = 0;  ///< of the optimizer, for an element
  /// Seconds to add a micro-batch's gradient to those before it, for an element.
  double accumulate_seconds = 0;
  /// Relative errors that predictions may have: as seen with measured or analytic costs.
  double memory_spread = 0.05, time_spread = 0.3;
  std::shared_ptr<SearchCache> known = {};  ///< of a search; null: nothing is kept

  KnownGroups* known_groups() const { return known ? &known->groups : nullptr; }
  /// Costs by block of a rank of `mesh`, with_expert_rows().
  std::vector<BlockCost> blocks_of(const parallel::Mesh& mesh, const Parallelism& split) const {
    return with_expert_rows(blocks(share_of(mesh, split)), model, mesh);
  }
};

enum class Fit { Yes, AtRisk, No };
const char* name_of(Fit fit);

/// Time and memory that a split would take.
struct Prediction {
  double seconds = 0;  ///< of a step, in a row of steps
  // Parts of that, of the stage that computes most:
  double computing = 0, held_up = 0, updates = 0, bubble = 0;
  parallel::MemoryUse memory;  ///< of the stage that needs most
  int stage = 0;               ///< that one
  Fit fit = Fit::Yes;
  int64_t short_bytes = 0;                             ///< beyond the memory, where it does not fit
  parallel::Place short_of = parallel::Place::Device;  ///< place that lacks these bytes
};

/// Plans a run with the split and simulates its step on the cluster. Simulates one of all ranks
/// that are alike and, unless `in_full`, of many micro-batches only the first and the last. Throws
/// UsageError if the model does not have so many blocks or heads.
Prediction predict(const ModelCosts& numbers, const Cluster& cluster, const StepFacts& facts,
                   const Parallelism& split, bool in_full = false);

/// Predicts a run that `split` spreads over a mesh, whatever mesh it names itself. The mesh
/// names a rank that none has more parameters than.
Prediction predict(const ModelCosts& numbers, const Cluster& cluster, const parallel::Mesh& mesh,
                   const Parallelism& split, const StepFacts& facts, bool in_full = false);

/// Costs of blocks in seconds, with the sums of tensor ranks inside of layers and the messages
/// round the ring of context ranks, and rows on their way to experts and back, which computing
/// waits for: nothing hides them; and messages to the next stage.
parallel::Costs seconds_of(const std::vector<BlockCost>& blocks, const Cluster& cluster,
                           const parallel::Mesh& mesh, const Link& to_next,
                           bool low_precision = false, KnownGroups* known = nullptr);

/// Whether so many bytes, give or take a part of them, stay within a limit.
Fit fit_of(int64_t bytes, int64_t limit, double spread);

/// Whether so many bytes go into a device's memory, the largest one's.
Fit fit_of(const ModelCosts& numbers, const Cluster& cluster, int64_t bytes);

/// Whether the memory of a split fits; fast.
Fit fit_of(const ModelCosts& numbers, const Cluster& cluster, const StepFacts& facts,
           const Parallelism& split);

}  // namespace convoy::planner
