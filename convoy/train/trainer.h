#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "convoy/base/folder_lock.h"
#include "convoy/train/batches.h"
#include "convoy/train/best_model.h"
#include "convoy/train/callback.h"
#include "convoy/train/job.h"
#include "convoy/train/scorer.h"
#include "convoy/train/state.h"
#include "convoy/train/trace.h"

namespace convoy::train {

/// Files that every checkpoint carries beside weights and state.
struct ModelFiles {
  Json config;                                ///< `config.json`
  std::map<std::string, std::string> texts;   ///< small files: name -> content
  std::vector<std::filesystem::path> copies;  ///< larger ones, copied by their own name
  std::vector<std::string> inputs;            ///< what is read; a run never writes beside it
};

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
  Trainer(parallel::ModelFactory factory, TrainingArguments arguments,
          std::shared_ptr<Dataset> train_data, std::shared_ptr<Dataset> eval_data = nullptr);
  /// With a job joined before. `fill` gives a new run's parameters their first values, on rank 0;
  /// without it all are drawn.
  using Fill = std::function<void(parallel::Replica&)>;
  Trainer(parallel::ModelFactory factory, TrainingArguments arguments,
          std::shared_ptr<Dataset> train_data, std::shared_ptr<Dataset> eval_data, Job job,
          Fill fill = {});
  ~Trainer();

  void set_files(ModelFiles files) { files_ = std::move(files); }
  /// How evaluations are judged; without one, by the loss alone.
  void set_scorer(MakeScorer make_scorer) { make_scorer_ = std::move(make_scorer); }
  void add_callback(std::shared_ptr<Callback> callback) {
    callbacks_.push_back(std::move(callback));
  }

  /// Completes log lines: how near the pace comes to what the machine can do.
  void set_pace(std::function<void(LogRecord&)> pace) { pace_ = std::move(pace); }

  /// Returns Hugging Face's train metrics: train_runtime, train_samples_per_second,
  /// train_steps_per_second, train_loss, epoch; after an evaluation also its metrics.
  Metrics train();

  /// When what `listen` returns becomes other than 0 on any rank, all end train() after the same
  /// step, with a checkpoint unless save_strategy is "no". `listen` (launch::note_stop_signals) is
  /// called right after the first step: until then there is nothing to save or to wait for.
  void stop_on(std::function<const std::atomic<int>&()> listen) { listen_ = std::move(listen); }
  /// The signal that ended train() early, or 0.
  int stopped_by() const { return stopped_by_; }

  /// eval_loss, what the scorer adds, eval_runtime and rates.
  /// Throws UsageError without evaluation data.
  Metrics evaluate();
  Metrics evaluate(const Dataset& data, const std::string& prefix);

  /// Receives this process's share of some samples of `data` and what the last block made of it:
  /// row i of batch c is the sample step.s0 + step.cells[c].samples[i]. Called equally often on all
  /// ranks; a batch without rows has an empty bundle.
  using UsePrediction =
      std::function<void(const StepCells& step, const std::vector<nn::Bundle>& outs)>;
  /// Runs the model over `data`, some samples of it after the other, on all ranks.
  void predict(const Dataset& data, const UsePrediction& use);

  /// Writes `<split>_results.json` and merges into `all_results.json`, as Hugging Face's does.
  void save_metrics(const std::string& split, const Metrics& metrics);

  /// Reads the weights of a run's or checkpoint's `model.safetensors`.
  void load_weights(const std::filesystem::path& folder);

  const Job& job() const { return job_; }
  const TrainerState& state() const { return state_; }
  /// The last evaluation during train() was after the last step.
  bool evaluated_last_step() const { return evaluated_step_ == state_.global_step; }
  parallel::Strategy& strategy() { return *strategy_; }

 private:
  struct Clock;
  struct Saving;

  void prepare();
  void resume();
  void open_output();
  void lock_output();
  void check_inputs(const std::filesystem::path& dir) const;
  void check_output(const std::filesystem::path& dir) const;
  std::filesystem::path checkpoint_of_this_job();
  std::filesystem::path checkpoint_to_resume();
  Json look_at_checkpoint(const std::filesystem::path& folder);
  void load_state(const std::filesystem::path& checkpoint);
  std::string best_seen_from_here(const std::filesystem::path& run, const std::string& best) const;
  std::optional<StepCells> next_cells();
  /// For tests, see base/fault.h.
  void inject_fault(const char* phase);
  StreamOptions stream_options(bool training) const;
  void train_step(StepCells cells, Clock& clock);
  double loss_scale(int64_t samples, int64_t tokens);
  void update_loss_scale(int64_t samples);
  void log(Clock& clock);
  /// Whether what happens every so many steps, or at the end of epochs, happens now.
  bool is_due(const std::string& when, double steps, bool epoch_end) const;
  bool evaluation_is_due(bool epoch_end) const;
  void after_step(bool epoch_end, Clock& clock);
  void stop_early(bool epoch_end, Clock& clock);
  void make_up_evaluation();
  bool evaluate_now();
  void load_best_model();
  void finish_trace();
  void check_targets() const;
  bool holds_model() const;
  bool ended() const {
    return stopped_early_ || stopped_by_ != 0 || state_.global_step >= state_.max_steps;
  }
  std::filesystem::path checkpoint_path(int64_t step) const;
  std::filesystem::path best_path() const;
  void save_checkpoint();
  void finish_save();
  bool writes_checkpoint() const;
  void save_model();
  void check_same_model(const std::filesystem::path& checkpoint) const;
  void save_small_files(const std::filesystem::path& folder);
  int64_t peak_device_bytes() const;
  void add_traffic(Metrics& metrics, const comm::Traffic& before, int64_t steps);
  void warn(const std::string& text);
  double learning_rate(int64_t step) const;
  int64_t per_device(int64_t configured) const;
  int64_t every(double value) const;
  void say(const std::string& text) {
    notify([&](Callback& callback) { callback.on_message(text); });
  }
  template <class F>
  void notify(F call) {
    if (!job_.is_main()) return;
    for (auto& callback : callbacks_) call(*callback);
  }

  TrainingArguments arguments_;
  std::shared_ptr<Dataset> train_data_, eval_data_;
  Job job_;
  std::unique_ptr<parallel::Strategy> strategy_;
  ModelFiles files_;
  MakeScorer make_scorer_;
  std::function<void(LogRecord&)> pace_;
  FolderLock lock_;  // of output.dir, on the main rank
  std::vector<std::shared_ptr<Callback>> callbacks_;
  std::unique_ptr<BatchStream> stream_;
  std::shared_ptr<Saving> saving_;  // under way
  TrainerState state_;
  Trace trace_;
  parallel::StepResult last_;
  std::string resumed_from_;
  Metrics eval_metrics_;
  int64_t evaluated_step_ = -1;
  BestModel best_;
  bool may_resume_ = true;
  bool stopped_early_ = false;
  std::function<const std::atomic<int>&()> listen_;
  const std::atomic<int>* stop_signal_ = nullptr;
  int stopped_by_ = 0;
  double num_targets_ = 0;  // of all steps of this call
};

}  // namespace convoy::train
