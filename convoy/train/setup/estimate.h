#pragma once

#include <memory>
#include <vector>

#include "convoy/parallel/run/types.h"
#include "convoy/schedule/run/run_plan.h"
#include "convoy/train/batches.h"
#include "convoy/train/setup/arguments.h"

namespace convoy::train {

/// Tells what a training would take before it takes anything. Each block of the model runs once
/// with the first batch of the data, with weights for that block only; the rest follows from what
/// ranks would keep.
class Estimator {
 public:
  /// Of `num_ranks` ranks, a process each. Throws UsageError where they do not go with the
  /// arguments, for DataParallel, and for what is offloaded.
  Estimator(const parallel::ModelFactory& factory, TrainingArguments arguments,
            const Dataset& data, int num_ranks);

  /// As the arguments ask, or with another stage of ZeRO and recomputation. The memory of each
  /// stage is that of a rank of it, of tensor ranks of the one that has most; the timeline is of
  /// computing alone, in seconds.
  schedule::RunPlan plan() const { return plan(zero(), recompute()); }
  schedule::RunPlan plan(int64_t zero, bool recompute) const;

  /// Of the rank that is told of.
  const schedule::Mesh& mesh() const { return mesh_; }
  /// Without others to share with no stage of ZeRO shares anything.
  int64_t zero() const { return mesh_.degree(schedule::kRows) > 1 ? options_.zero : 0; }
  bool recompute() const { return options_.recompute; }
  int64_t num_micro_batches() const { return options_.num_micro_batches; }

 private:
  schedule::Mesh mesh_;
  schedule::RunOptions options_;
  schedule::ModelDecl model_;
  std::vector<schedule::BlockCost> costs_;
};

/// What a training of `num_ranks` ranks would take: memory by kind and stage, what each rank does,
/// and how a step would go.
schedule::RunPlan estimate(const parallel::ModelFactory& factory,
                           const TrainingArguments& arguments, const Dataset& data,
                           int num_ranks = 1);

}  // namespace convoy::train

namespace convoy {
using train::estimate;
}  // namespace convoy
