#pragma once

#include "convoy/job/job.h"
#include "convoy/job/placement.h"
#include "convoy/job/run_options.h"
#include "convoy/options/batch.h"
#include "convoy/planner/cost/pipeline_inputs.h"
#include "convoy/train/callback_handler.h"
#include "convoy/train/checkpoints/best_model.h"
#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/checkpoints/model_files.h"
#include "convoy/train/injected_fault.h"
#include "convoy/train/logging/clock.h"
#include "convoy/train/logging/trace.h"
#include "convoy/train/scorer.h"
#include "convoy/train/slow_ranks.h"
#include "convoy/train/state.h"
#include "convoy/train/trainer.h"

namespace convoy::train {

/// While it lives, this process's tensors may take what they take now and, of each of its ranks,
/// what device_memory (bytes; 0: no limit) leaves beside its state. In a program whose allocator
/// counts.
class StepLimit {
 public:
  StepLimit(parallel::Strategy& strategy, int64_t device_memory);
  ~StepLimit();
  StepLimit(const StepLimit&) = delete;
  StepLimit& operator=(const StepLimit&) = delete;
};

/// Causes of rows without a target, and what to try.
std::string no_targets_hint();

// Internal to the component: trainer.cpp (the loop), prepare.cpp, device_memory.cpp,
// step.cpp, evaluate.cpp.
struct Trainer::Impl {
  Impl(parallel::ModelFactory factory, options::TrainingArguments arguments,
       std::shared_ptr<dataset::Dataset> train_data, std::shared_ptr<dataset::Dataset> eval_data,
       job::Job job, Fill fill);

  // Before the first step.
  void check_gradients() const;
  void make_strategy(parallel::ModelFactory factory, Fill fill);
  void prepare();
  void sum_what_it_reads();
  std::string resume();
  RunInfo describe();
  std::string lack_of_space() const;
  data::StreamOptions stream_options(bool training) const;
  void check_same_data(const dataset::BatchStream& stream, const char* what) const;
  planner::PipelineInputs inputs_of_pipeline(const parallel::ModelFactory& factory) const;
  int64_t per_device(int64_t configured) const;
  void find_batch(const parallel::ModelFactory& factory);
  int ranks_here() const;
  std::string memory_advice() const;
  bool ran_out(const std::exception& error) const;
  std::string beyond_device_memory();
  void inject_fault(const char* phase) { train::inject_fault(phase, *strategy_, job_.world()); }

  // A step.
  std::optional<dataset::StepBatch> next_batch();
  /// False: nothing was changed, and the step has to be made again of smaller micro-batches.
  bool train_step(dataset::StepBatch batch);
  int64_t fewer_rows() const;
  void step_down();
  double loss_scale(int64_t samples, int64_t tokens);
  void update_loss_scale(int64_t samples);
  void check_skipped() const;
  void name_replay(const std::exception& any) const;
  void tell_failed_kernels();
  double learning_rate(int64_t step) const;

  // The loop.
  Metrics train();
  void log_if_due(bool epoch_end);
  void after_step(bool epoch_end);
  void stop_early(bool epoch_end);
  void leave(bool is_saved);
  bool leaves_checkpoints() const {
    return arguments_.save_strategy != "no" && !arguments_.output.dir.empty();
  }
  /// Whether a run that was stopped after its last step leaves no checkpoint that holds it.
  bool keeps_stopped_model() const {
    return state_.global_step >= state_.max_steps && !leaves_checkpoints() &&
           !arguments_.output.dir.empty();
  }
  int signal_of_any_rank() const;
  void log();
  bool keeps_sums() const { return !arguments_.output.dir.empty(); }
  void add_up_rows();
  void add_metrics();
  void save_checkpoint(bool wait);
  void tell_weights();
  void finish_trace();
  void check_targets() const;
  void tell_steps_without_targets();
  Metrics summary(const comm::Traffic& before);
  parallel::MemoryUse note_memory();
  int64_t peak_device_bytes() const;
  double data_wait() const { return earlier_data_wait_ + stream_->wait_seconds(); }
  /// A part of all steps, or a number of them.
  int64_t every(double value) const;
  /// Whether what happens every so many steps, or at the end of epochs, happens now.
  bool is_due(const std::string& when, double steps, bool epoch_end) const;
  bool ended() const {
    return stopped_early_ || stopped_by_ != 0 || state_.global_step >= state_.max_steps;
  }

  // Evaluation.
  /// Nothing where a stop signal ended it, which stopped_by_ then is.
  std::optional<Metrics> evaluate(const dataset::Dataset& data, const std::string& prefix);
  void tell_not_finite(const Metrics& metrics, const std::string& prefix, const Scorer* scorer,
                       bool has_targets) const;
  bool evaluate_now();
  bool evaluation_is_due(bool epoch_end) const;
  void make_up_evaluation();
  void find_end_evaluation();
  Metrics evaluation_after(int64_t step) const;
  bool load_best_model();

  options::TrainingArguments arguments_;
  parallel::ModelFactory factory_;
  bool holds_batch_ = false;  // global_batch_size was given
  std::shared_ptr<dataset::Dataset> train_data_, eval_data_;
  job::Job job_;
  CallbackHandler callbacks_;
  BestModel best_;
  std::unique_ptr<parallel::Strategy> strategy_;
  std::optional<Checkpoints> checkpoints_;  // always, but needs the strategy
  MakeScorer make_scorer_;
  std::function<void(LogRecord&)> pace_;
  std::function<void()> before_first_step_;
  parallel::PassObserver* observer_ = nullptr;  // of one step
  int64_t observed_step_ = 0;
  std::unique_ptr<dataset::BatchStream> stream_;
  double earlier_data_wait_ = 0;  // seconds, of streams before this one
  TrainerState state_;
  int64_t earlier_updates_ = 0;  // that the moments of a new run saw
  Clock clock_{state_};
  std::optional<SlowRanks> slow_ranks_;  // where a rank's waits are known: not on GPUs
  Trace trace_;
  size_t num_failed_kernels_ = 0;  // that were told
  parallel::StepResult last_;
  uint64_t own_rows_sum_ = 0;  // of rows that this process read since state_.rows_sum
  std::vector<parallel::MemoryUse> most_memory_;  // by stage, of each kind so far
  Metrics eval_metrics_;
  int64_t evaluated_step_ = -1;
  bool stopped_early_ = false;
  std::function<const std::atomic<int>&()> listen_;
  const std::atomic<int>* stop_signal_ = nullptr;
  bool may_be_stopped_ = false;  // train() was called, on all ranks
  int stopped_by_ = 0;
  double num_targets_ = 0;                // of all steps of this call
  int64_t unlogged_without_targets_ = 0;  // steps
};

}  // namespace convoy::train
