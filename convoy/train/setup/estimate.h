#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/progress.h"
#include "convoy/parallel/run/types.h"
#include "convoy/schedule/run/run_plan.h"
#include "convoy/train/batches.h"
#include "convoy/train/planning/block_costs.h"
#include "convoy/train/setup/arguments.h"
#include "convoy/train/setup/asked_run.h"

namespace convoy::train {

/// A way to keep the state of a run and to cut its step: what an estimate can be asked of.
struct Way {
  int64_t zero = 0;
  bool recompute = false;
  int64_t rows = 1;           ///< of a micro-batch
  int64_t micro_batches = 1;  ///< of a rank's step

  bool operator==(const Way&) const = default;
};

/// What an estimate is read from, beside model and arguments.
struct EstimateInputs {
  const Dataset& data;  ///< must outlive the Estimator
  int num_ranks = 1;
  /// What a training evaluates, with per_device_eval_batch_size rows at a time: memory is of that
  /// where it takes more than a step.
  std::shared_ptr<const Dataset> eval_data = {};
  /// Run micro-batches of two numbers of rows only, for a batch that is too large to run here.
  /// Empty: what is asked for runs, unless a block of it would take half of this host's memory.
  std::vector<int64_t> sizes = {};
  bool for_gpu = false;  ///< scores take a GPU's memory; goes with `sizes`
  ProgressFn progress = {};
};

/// Tells what a training would take before it takes anything. Each block of the model runs once
/// with the first batch of the data, with weights for that block only; the rest follows from what
/// ranks would keep.
class Estimator {
 public:
  /// Of ranks that are a process each. Throws UsageError where they do not go with the arguments,
  /// and for DataParallel.
  Estimator(const parallel::ModelFactory& factory, TrainingArguments arguments,
            const EstimateInputs& inputs);

  /// What the arguments ask for.
  Way asked() const;
  /// The memory of each stage is that of a rank of it, of tensor ranks of the one that has most;
  /// the timeline is of computing alone, in seconds. For micro-batches of other sizes than the one
  /// asked for, blocks run for two sizes, and costs lie on the line through them.
  schedule::RunPlan plan() const { return plan(asked()); }
  schedule::RunPlan plan(const Way& way) const;
  /// Of the stage that needs most.
  schedule::MemoryUse memory(const Way& way) const;

  /// When a rank of that stage holds most, in words.
  std::string peak_text(const Way& way) const;

  /// Nobody has so many in a micro-batch: more of them take no more.
  static constexpr int64_t kMostRows = 1 << 20;
  /// The most rows that `way` could have in a micro-batch of a step within `bytes`, of those that
  /// make the same step where `holds_batch`; 0: not even one row fits.
  int64_t most_rows(const Way& way, int64_t bytes, bool holds_batch) const;
  /// The way that is nearest to the one asked for, makes the same step and takes no more than
  /// `bytes`, evaluations left out; none: there is none on these ranks.
  std::optional<Way> nearest(int64_t bytes) const;
  /// The per_device_eval_batch_size with which an evaluation of such a run takes no more than
  /// `bytes`, no larger than it is; none: nothing is evaluated.
  std::optional<int64_t> eval_rows(const Way& way, int64_t bytes) const;
  int64_t asked_eval_rows() const { return eval_rows_; }

  /// Of the rank that is told of.
  const schedule::Mesh& mesh() const { return run_.mesh; }
  /// Rows of the micro-batches that ran where the one asked for is too large for this host.
  const std::vector<int64_t>& fewer_rows() const { return sizes_; }

 private:
  schedule::RunPlan plan_step(const Way& way, bool proves) const;
  /// What evaluations take more than the step counts.
  schedule::RunPlan with_evaluation(schedule::RunPlan plan) const;
  int64_t step_bytes(const Way& way) const;
  int64_t largest_that_fits(const Way& way, int64_t bytes) const;
  /// Runs micro-batches of so many rows, unless that takes long; whether it did.
  bool refine(const Way& way) const;
  int64_t eval_bytes(const schedule::Layout& layout) const;
  /// Of the rank that is told of.
  plan::BlockShare share_of(int64_t rows) const;
  void run_step(const parallel::ModelFactory& factory, const TrainingArguments& arguments,
                const EstimateInputs& inputs, const profile::ProfileOptions& how);
  void run_evaluation(const parallel::ModelFactory& factory, TrainingArguments arguments,
                      const EstimateInputs& inputs, profile::ProfileOptions how);

  AskedRun run_;
  int64_t rows_;
  std::vector<int64_t> sizes_;              // that run instead of rows_; none: it runs
  std::vector<schedule::BlockCost> costs_;  // for micro-batches of rows_
  std::shared_ptr<BlockCosts> others_;
  bool refines_ = true;
  int64_t eval_rows_ = 0;
  std::vector<int64_t> eval_bytes_;  // by block; none without an evaluation
};

/// The options of a run that make a step so, in words as they are typed, those that are as `asked`
/// left out; `holds_batch`: global_batch_size says how many rows a step has.
std::string flags_of(const Way& way, const Way& asked, bool holds_batch);

/// What a training of `num_ranks` ranks would take: memory by kind and stage, what each rank does,
/// and how a step would go.
schedule::RunPlan estimate(const parallel::ModelFactory& factory,
                           const TrainingArguments& arguments, const Dataset& data,
                           int num_ranks = 1);

}  // namespace convoy::train

namespace convoy {
using train::estimate;
}  // namespace convoy
