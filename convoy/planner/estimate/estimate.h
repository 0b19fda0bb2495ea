#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/progress.h"
#include "convoy/dataset/batches.h"
#include "convoy/options/arguments.h"
#include "convoy/parallel/buffers/types.h"
#include "convoy/parallel/run_plan/run_plan.h"
#include "convoy/planner/cost/block_costs.h"
#include "convoy/planner/estimate/asked_run.h"
#include "convoy/planner/estimate/first_pass.h"

namespace convoy::planner {

using parallel::Parallelism;

/// Inputs of an estimate, beside model and arguments.
struct EstimateInputs {
  const dataset::Dataset& data;  ///< must outlive the Estimator
  int num_ranks = 1;
  /// Data that the training evaluates, with per_device_eval_batch_size rows at a time: memory is
  /// the evaluation's where that takes more than a step.
  std::shared_ptr<const dataset::Dataset> eval_data = {};
  /// Numbers of rows of two micro-batches to run, for a batch that is too large to run here.
  /// Empty: the batch that is asked for runs, unless a block of it would take half of this host's
  /// memory.
  std::vector<int64_t> sizes = {};
  /// Evaluation before the first step, which counts as evaluations do.
  std::optional<FirstPass> first_pass = {};
  bool for_gpu = false;  ///< scores take a GPU's memory; goes with `sizes`
  ProgressFn progress = {};
};

/// Estimates a training's memory and time before it takes any. Each block of the model runs once
/// with the first batch of the data, with weights for that block only; the rest is computed from
/// the layout of the ranks.
class Estimator {
 public:
  /// Prepares the estimate for ranks that are a process each. Throws UsageError where they
  /// contradict the arguments, and for DataParallel.
  Estimator(const parallel::ModelFactory& factory, options::TrainingArguments arguments,
            const EstimateInputs& inputs);

  /// Spread that the arguments ask for; others differ from it in ZeRO, recomputation of all blocks,
  /// rows and micro-batches.
  Parallelism asked() const;
  /// Plan with the memory of each stage, on the tensor rank that has most; the timeline is of
  /// computing alone, in seconds. For micro-batches of other sizes than the one asked for, blocks
  /// run for two sizes, and costs lie on the line through them.
  parallel::RunPlan plan() const { return plan(asked()); }
  parallel::RunPlan plan(const Parallelism& split) const;
  /// Memory of the stage that needs most.
  parallel::MemoryUse memory(const Parallelism& split) const;

  /// Time at which a rank of that stage holds most, in words.
  std::string peak_text(const Parallelism& split) const;

  /// Upper limit of rows that most_rows() tries.
  static constexpr int64_t kMostRows = 1 << 20;
  /// Largest number of rows of a micro-batch with which `split` fits into `bytes`; with
  /// `holds_batch` of those that make the same step; 0: not even one row fits.
  int64_t most_rows(const Parallelism& split, int64_t bytes, bool holds_batch) const;
  /// Settings nearest to the ones asked for that make the same step and take at most `bytes`, with
  /// evaluations of eval_rows(); none: there are none on these ranks.
  std::optional<Parallelism> nearest(int64_t bytes) const;
  /// Largest per_device_eval_batch_size, up to the one asked for, with which evaluations of such a
  /// run take at most `bytes`; 0: not even one row fits; none: nothing is evaluated.
  std::optional<int64_t> eval_rows(const Parallelism& split, int64_t bytes) const;
  int64_t asked_eval_rows() const { return eval_rows_; }

  /// Mesh coordinates of the reported rank: the one with most parameters.
  const parallel::Mesh& mesh() const { return run_.mesh; }
  /// Rows of the micro-batches that ran, where the one asked for is too large for this host.
  const std::vector<int64_t>& fewer_rows() const { return sizes_; }

 private:
  parallel::RunPlan plan_step(Parallelism split, bool proves) const;
  /// Adds the memory that evaluations take beyond the step's.
  parallel::RunPlan with_evaluations(parallel::RunPlan plan, const Parallelism& split) const;
  int64_t step_bytes(const Parallelism& split) const;
  int64_t largest_that_fits(const Parallelism& split, int64_t bytes) const;
  /// Runs micro-batches of so many rows, unless that takes long; returns whether it did.
  bool refine(const Parallelism& split) const;
  /// Work of a run without a backward.
  struct Evaluation {
    std::string when;                    ///< in words
    std::vector<int64_t> bytes;          ///< by block
    std::optional<AskedRun> other = {};  ///< the model, where it is there beside the trained one
  };
  /// Bytes that an evaluation takes beside the state of a stage.
  struct EvaluationUse {
    int64_t beside = 0;  ///< the other model's weights
    int64_t block = 0;   ///< of the block that takes most

    int64_t sum() const { return beside + block; }
  };
  EvaluationUse use_of(const Evaluation& evaluation, const Parallelism& split,
                       const parallel::RunPlan& plan, size_t stage) const;
  /// Share of the reported rank.
  BlockShare reported_share(int64_t rows) const;
  void run_step(const parallel::ModelFactory& factory, const options::TrainingArguments& arguments,
                const EstimateInputs& inputs, const ProfileOptions& how);
  /// Bytes by block of an evaluation.
  std::vector<int64_t> run_evaluation(const parallel::ModelFactory& factory,
                                      options::TrainingArguments arguments,
                                      const dataset::Dataset& data, ProfileOptions how,
                                      bool for_gpu) const;

  AskedRun run_;
  int64_t rows_;
  std::vector<int64_t> sizes_;              // that run instead of rows_; none: it runs
  std::vector<parallel::BlockCost> costs_;  // for micro-batches of rows_
  std::shared_ptr<BlockCosts> others_;
  bool refines_ = true;
  int64_t eval_rows_ = 0;
  std::vector<Evaluation> evaluations_;
};

/// Options of a run with these settings, as they are typed, those that are as `asked` left out;
/// `holds_batch`: global_batch_size sets the rows of a step.
std::string flags_of(const Parallelism& split, const Parallelism& asked, bool holds_batch);

/// Estimates a training of `num_ranks` ranks: memory by kind and stage, each rank's program, and a
/// simulated step.
parallel::RunPlan estimate(const parallel::ModelFactory& factory,
                           const options::TrainingArguments& arguments,
                           const dataset::Dataset& data, int num_ranks = 1);

}  // namespace convoy::planner

namespace convoy {
using planner::estimate;
}  // namespace convoy
