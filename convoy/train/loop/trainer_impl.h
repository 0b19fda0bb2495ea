#pragma once

#include <optional>
#include <string>

#include "convoy/train/logging/clock.h"
#include "convoy/train/logging/trace.h"
#include "convoy/train/loop/batch_sizer.h"
#include "convoy/train/loop/evaluations.h"
#include "convoy/train/loop/log.h"
#include "convoy/train/loop/loss_scaling.h"
#include "convoy/train/loop/targets.h"
#include "convoy/train/loop/train_memory.h"
#include "convoy/train/slow_ranks.h"

namespace convoy::train {

// Internal to the component: trainer.cpp (what programs call), prepare.cpp (before the first step),
// training.cpp (the loop), step.cpp (a step).
struct Trainer::Impl {
  Impl(parallel::ModelFactory factory, options::TrainingArguments arguments,
       std::shared_ptr<dataset::Dataset> train_data, std::shared_ptr<dataset::Dataset> eval_data,
       job::Job job, Fill fill);

  void prepare();

  // The loop.
  Metrics train();
  void train_epoch();
  void keep_finished_model(const Metrics& metrics);
  void save_finished_model(const Metrics& metrics, bool nothing_left);
  void after_step(bool epoch_end);
  void stop_early(bool epoch_end);
  void leave(bool is_saved);
  bool ended() const;
  void tell_rest() const;
  bool keeps_stopped_model() const;
  void make_up_evaluation();
  void save_checkpoint(bool wait);

  // A step.
  /// False: nothing was changed, and the step has to be made again of smaller micro-batches.
  bool train_step(dataset::StepBatch batch);
  parallel::StepInput input_of_step(int64_t samples, int64_t tokens);
  void tell_step_time(int64_t samples, int64_t tokens);
  void finish_trace();

  RunContext run_;
  parallel::ModelFactory factory_;
  std::shared_ptr<dataset::Dataset> train_data_, eval_data_;
  StopSignal stop_;
  BatchSizer batch_sizer_{run_, factory_, train_data_.get()};
  Evaluator evaluator_{run_, stop_};
  Evaluations evaluations_{run_, evaluator_, eval_data_.get()};
  LossScaling loss_scaling_{run_};
  TrainingStream stream_{run_, train_data_.get()};
  TrainMemory memory_{run_};
  TargetCount targets_{run_};
  Clock clock_{run_.state};
  TrainingLog log_{run_, clock_, stream_, memory_, targets_};
  Trace trace_;
  std::optional<Checkpoints> checkpoints_;  // always, but needs the strategy
  std::optional<SlowRanks> slow_ranks_;     // where a rank's waits are known: not on GPUs
  parallel::StepResult last_;
  int64_t earlier_updates_ = 0;  // that the moments of a new run saw

  // Set by the program.
  std::function<void()> before_first_step_;
  parallel::PassObserver* observer_ = nullptr;  // of one step
  int64_t observed_step_ = 0;
};

}  // namespace convoy::train
