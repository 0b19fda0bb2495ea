#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "convoy/dataset/batches.h"
#include "convoy/options/arguments.h"
#include "convoy/train/callback.h"

namespace convoy::parallel {
class PassObserver;
}

namespace convoy::job {
struct Job;
}  // namespace convoy::job

namespace convoy::train {

struct ModelFiles;    // checkpoints/model_files.h
struct TrainerState;  // state.h
class Scorer;         // scorer.h
using MakeScorer = std::function<std::unique_ptr<Scorer>()>;

/// Trains a model on a data set: single device, DataParallel or DistributedDataParallel, as the
/// arguments and the environment say. The same program serves every rank.
///
///     convoy::Trainer trainer(factory, arguments, train_data, eval_data);
///     auto metrics = trainer.train();
///
/// `factory` makes the model's blocks and is called once per replica. The Trainer spreads the
/// work itself: a model that is wrapped already must not be given to it.
class Trainer {
 public:
  Trainer(parallel::ModelFactory factory, options::TrainingArguments arguments,
          std::shared_ptr<dataset::Dataset> train_data,
          std::shared_ptr<dataset::Dataset> eval_data = nullptr);
  /// `fill` gives a new run's parameters their first values, on all ranks; without it all are
  /// drawn.
  using Fill = std::function<void(parallel::Replica&)>;
  Trainer(parallel::ModelFactory factory, options::TrainingArguments arguments,
          std::shared_ptr<dataset::Dataset> train_data, std::shared_ptr<dataset::Dataset> eval_data,
          Fill fill);
  /// Makes a trainer for a job that was joined before.
  Trainer(parallel::ModelFactory factory, options::TrainingArguments arguments,
          std::shared_ptr<dataset::Dataset> train_data, std::shared_ptr<dataset::Dataset> eval_data,
          job::Job job, Fill fill = {});
  ~Trainer();

  void set_files(ModelFiles files);
  /// Sets the scorer of evaluations; without one, the loss alone counts.
  void set_scorer(MakeScorer make_scorer);
  void add_callback(std::shared_ptr<Callback> callback);
  /// Sets what train() calls on all ranks before its first step: the weights to begin with, or to
  /// go on with, are there, and output.dir is this run's.
  void before_first_step(std::function<void()> work);
  /// Completes log lines: how near the pace comes to what the machine can do.
  void set_pace(std::function<void(LogRecord&)> pace);
  /// Shows `observer`, which must outlive train(), what blocks compute in one step; steps count
  /// from 1.
  void observe(parallel::PassObserver& observer, int64_t step);

  /// Returns Hugging Face's train metrics: train_runtime, train_samples_per_second,
  /// train_steps_per_second, train_loss, epoch; after an evaluation also its metrics. There is no
  /// loss where fp16 skipped every step.
  Metrics train();

  /// Stops all ranks after the current step once the flag that `listen` returns is non-zero on any
  /// rank. train() then ends with a checkpoint, unless save_strategy is "no". An evaluation ends
  /// early; a run that resumes makes it up. `listen` (launch::note_stop_signals) is called right
  /// after the first step: until then there is nothing to save or to wait for.
  void stop_on(std::function<const std::atomic<int>&()> listen);
  /// Returns the signal that ended train(), or the evaluation after it, early; 0 for none.
  int stopped_by() const;

  /// eval_loss, what the scorer adds, eval_runtime and rates.
  /// Empty where a signal ended it early. Throws UsageError without evaluation data.
  Metrics evaluate();
  Metrics evaluate(const dataset::Dataset& data, const std::string& prefix);

  /// Receives this process's share of some samples of `data` and the last block's output for them:
  /// row i of batch c is the sample step.s0 + step.micro-batches[c].samples[i]. Called equally
  /// often on all ranks; a batch without rows has an empty bundle.
  using UsePrediction =
      std::function<void(const dataset::StepBatch& step, const std::vector<nn::Bundle>& outs)>;
  /// Runs the model over `data` on all ranks, until the samples below `most` are done; 0 = all.
  /// `mode`: Predict, or Evaluate, whose outputs are those of evaluations.
  void predict(const dataset::Dataset& data, const UsePrediction& use, int64_t most = 0,
               nn::Mode mode = nn::Mode::Predict);

  /// Writes `<split>_results.json` and merges into `all_results.json`, as Hugging Face's does.
  void save_metrics(const std::string& split, const Metrics& metrics);

  /// Reads the weights of a run's or checkpoint's `model.safetensors`.
  void load_weights(const std::filesystem::path& folder);

  /// Makes a new run begin with the optimizer's moments in a checkpoint, and correct their bias by
  /// the updates that they saw. Throws UsageError where they are of another optimizer.
  void load_moments(const std::filesystem::path& checkpoint);

  bool is_main() const;  ///< of all ranks the one that prints and writes
  const job::Job& job() const;
  const options::TrainingArguments& arguments() const;
  const TrainerState& state() const;
  /// Whether the last evaluation during train() was after the last step, or that of a finished run
  /// was found among its files.
  bool evaluated_last_step() const;
  /// Metrics of that evaluation; where there was none, evaluates the model now and writes
  /// eval_results.json. Throws UsageError without evaluation data.
  Metrics evaluate_end();
  parallel::Strategy& strategy();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::train
