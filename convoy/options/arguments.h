#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/parallel/parallelism.h"

namespace convoy::parallel {
struct StepFacts;
}  // namespace convoy::parallel

namespace convoy::options {

/// Folder of a run's curves, unless another one is named for them.
inline constexpr const char* kEvents = "runs";

/// Plan that a run follows, made by convoy plan or before its ranks formed groups.
struct PlannedStep {
  int64_t ranks = 0;         ///< 0: it was not planned
  std::string split;         ///< spread of a step
  double seconds = 0;        ///< that it takes
  int64_t memory_bytes = 0;  ///< of the rank that needs most
  std::string device = "";   ///< of another host that it is for; "": the host that planned it
  bool kept = false;         ///< by the checkpoint that the run goes on from
};

/// `[parallel]`: how the work is spread, and where it runs.
struct ParallelArguments {
  /// Rows, micro-batches and recomputation of all blocks are those of TrainingArguments; ranks with
  /// other rows are the rest of the job's.
  parallel::Parallelism parallelism;
  std::string shard_ranks = "all";  ///< ranks of a state replica: all, host, or a number
  std::string strategy = "auto";    ///< auto, single, dp, ddp or plan
  int64_t replicas = 0;  ///< of DataParallel, or of stages in one process; 0 = as many as GPUs
  std::string dp_batch = "per_device";
  std::string backend = "auto";
  int64_t threads = 0;                    ///< intra-op threads per rank; 0 = automatic
  int64_t device_memory = 0;              ///< bytes that tensors of a rank may take; 0: no limit
  std::vector<std::string> task_options;  ///< a task's own that all ranks must have alike, as lines
  bool one_process_each = false;          ///< --nproc was given: each rank is a process
  bool only_asks = false;  ///< nothing will be allocated: sizes are not held against this machine
  bool data_may_be_random = false;  ///< whether random data may stand for files that are not there
  int64_t timeout = 100;
  std::string device = "auto";
  PlannedStep planned;
  bool low_precision = false;  ///< see share()
  int64_t state_bytes = 8;     ///< see share()

  int num_stages() const { return static_cast<int>(parallelism.ranks.pipeline); }
  int num_tensor_ranks() const { return static_cast<int>(parallelism.ranks.tensor); }
  int num_context_ranks() const { return static_cast<int>(parallelism.ranks.context); }
  int num_expert_ranks() const { return static_cast<int>(parallelism.ranks.expert); }
  /// Ranks that compute the same rows together.
  int64_t ranks_of_rows() const { return parallelism.ranks.of_rows(); }
  /// Facts of a training, as far as options tell them.
  parallel::StepFacts facts() const;
  /// Batch sizes are those of all of DataParallel's devices together.
  bool counts_in_total() const { return dp_batch == "total"; }
  /// Declares every option of the section.
  void declare(OptionTable& table);
  /// Returns the part of TrainingArguments::shared_options() that is known when the ranks meet.
  std::vector<std::string> shared_options() const;
  /// Takes from `table` what is needed of other sections: task_options, which are what it holds
  /// beside training's own options, whether weights have 16 bits, and what the optimizer keeps.
  void share(const OptionTable& table);
};

/// `[output]`: what is written and printed.
struct OutputArguments {
  OutputArguments();
  /// Declares every option of the section.
  void declare(OptionTable& table);

  std::string dir;
  bool overwrite = false;
  bool quiet = false;
  std::string trace;
  int64_t trace_steps = 3;
  std::string events;          ///< see make_event_stream()
  std::string metrics_file;    ///< see make_metrics_file()
  int64_t metrics_port = 0;    ///< see make_metrics_server()
  std::string max_shard_size;  ///< "5GB"
};

/// `[train]`: Hugging Face's TrainingArguments by their known names and defaults; a task may have
/// its own (Task::set_defaults).
struct TrainingArguments {
  double num_train_epochs = 3;
  int64_t max_steps = -1;
  double stop_steps = 0;
  int64_t per_device_train_batch_size = 8;
  int64_t per_device_eval_batch_size = 8;
  int64_t gradient_accumulation_steps = 1;
  std::optional<int64_t> global_batch_size;  ///< see hold_batch() (options/batch.h)
  bool auto_find_batch_size = false;
  bool gradient_checkpointing = false;
  std::string optim = "adamw_torch";  ///< see optim::optimizer_names()
  double learning_rate = 5e-5;
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;
  int64_t check_replicas_steps = 0;
  int64_t sum_steps = 0;  ///< 0: at saves and evaluations
  std::string lr_scheduler_type = "linear";
  std::string lr_scheduler_kwargs;  ///< JSON, see optim::LrShape; "" = the schedule's defaults
  double warmup_ratio = 0;
  int64_t warmup_steps = 0;
  bool bf16 = false;
  bool fp16 = false;
  bool tf32 = false;
  bool deterministic = false;
  int64_t seed = 42;
  std::optional<int64_t> data_seed;
  bool dataloader_drop_last = false;
  std::string logging_strategy = "steps";
  double logging_steps = 500;
  double usual_logging_steps = 500;  ///< default of logging_steps: a task may have its own
  bool logging_first_step = false;
  std::string eval_strategy = "no";
  std::optional<double> eval_steps;
  bool eval_on_start = false;
  std::string save_strategy = "steps";
  double save_steps = 500;
  std::optional<int64_t> save_total_limit;
  bool save_async = true;
  double disk_full_wait = 600;               ///< seconds
  std::optional<int64_t> memory_copy_steps;  ///< see train::MemoryCopying
  std::string resume_from_checkpoint;
  std::string report_to = "none";
  std::string deepspeed;  ///< see read_deepspeed()
  std::string logging_dir;
  bool load_best_model_at_end = false;
  std::string metric_for_best_model;
  std::string greater_is_better = "auto";
  int64_t early_stopping_patience = 0;
  double early_stopping_threshold = 0;

  ParallelArguments parallel;
  OutputArguments output;

  /// Sentences that came up while options were read; shown when training starts.
  std::vector<std::string> notes;

  /// Declares every option of the sections train, parallel and output.
  void declare(OptionTable& table);

  /// Takes `--train.learning_rate 1e-3`, `--learning_rate 1e-3` and the like from a program's
  /// command line. Returns the list of them all where `--help` asks for it, for the program to
  /// print. Throws UsageError on anything else.
  [[nodiscard]] std::optional<std::string> read_command_line(int argc, char** argv);

  /// Throws UsageError on options that would have no effect under this launcher.
  void check_effect() const;
  /// "name = value" of each option that all ranks of a job must have alike: of all that are not
  /// declared to differ.
  std::vector<std::string> shared_options() const;

  /// Throws UsageError on a value out of range, and on options that do not fit together or with
  /// what there is: training data, evaluation data.
  void check(bool trains, bool evaluates) const;
  /// Throws UsageError for what no CPU computes, where a question is about this host's CPU.
  /// `instead` says what to try for a GPU.
  void check_for_cpu(const std::string& instead) const;

  /// Sentences about what is allowed but hardly meant in a run of `max_steps` steps.
  std::vector<std::string> warnings(int64_t max_steps) const;

  /// Folder of TensorBoard's events: logging_dir, or `runs` in output.dir. Throws UsageError when
  /// neither is given.
  std::filesystem::path events_folder() const;

 private:
  /// Tells `table` which options are those of every day, and what others call them: `--lr` is
  /// answered with learning_rate.
  static void add_hints(OptionTable& table);
};

}  // namespace convoy::options
