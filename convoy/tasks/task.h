#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/job/job.h"
#include "convoy/planner/estimate/first_pass.h"
#include "convoy/tasks/scored_rows.h"
#include "convoy/train/checkpoints/model_files.h"
#include "convoy/train/scorer.h"
#include "convoy/train/trainer.h"

namespace CLI {
class App;
}

namespace convoy::tasks {

/// Work of a command; returns the exit code.
using Work = std::function<int()>;

/// Data with the name that a person knows it by.
struct NamedData {
  std::string name;
  std::shared_ptr<dataset::Dataset> data;  ///< null when there is none
  std::vector<std::string> notes = {};     ///< sentences on what the model makes of it
};

/// A task's run as its options ask: everything that a Trainer needs.
struct Run {
  parallel::ModelFactory factory;
  std::shared_ptr<dataset::Dataset> train_data;  ///< null for a run that was opened
  std::shared_ptr<dataset::Dataset> valid_data;  ///< null when there is none
  train::ModelFiles files;
  train::MakeScorer scorer;
  /// Gives a batch of training as Hugging Face's model takes it, with `labels`; none: they have no
  /// such model.
  std::function<nn::Bundle(const nn::Bundle& batch, const nn::Context& context)> labelled = {};
  train::Trainer::Fill fill;  ///< reads the weights to start from; empty = all are drawn
  /// Computes what the data needs of the weights to begin with: on all ranks, before the first step
  /// of a run (Trainer::before_first_step); empty = nothing.
  std::function<void(train::Trainer& trainer)> begin = {};
  /// Evaluation that `begin` makes, for estimates of memory; none: it makes none.
  std::optional<planner::FirstPass> first_pass = {};
  double flops_per_sample = 0;  ///< of the products that training needs; 0 = not known
  /// Sentences for a person about the model that was read; fill adds to them.
  std::shared_ptr<std::vector<std::string>> notes = std::make_shared<std::vector<std::string>>();
};

/// Details of an evaluation beside its metrics.
struct EvaluationReport {
  Json json = Json::object();  ///< entries beside the metrics
  std::string text;            ///< tables
  std::vector<std::string> notes;
  ScoredRows rows;  ///< where they were asked for
};

/// Request of `convoy predict`.
struct PredictionRequest {
  std::filesystem::path folder;  ///< of the run, or a checkpoint
  std::string data;              ///< "" = the data that the run evaluates on
  std::string output;            ///< file to write; "" = people read it, "-" = standard output
  int64_t rows = 0;              ///< only the first; 0 = all
  /// Tells a person the notes of the run, on the main rank once its model is there.
  std::function<void(const std::vector<std::string>& notes)> tell = [](const auto&) {};

  bool to_file() const { return !output.empty() && output != "-"; }
};

/// A stretch of data that is trained on by itself, and then evaluated on the next.
struct Window {
  std::string name;                                          ///< also of its folder in output.dir
  std::string evaluated_on;                                  ///< the name of the next
  std::vector<std::pair<std::string, std::string>> options;  ///< that say so: key, value
  std::vector<std::string> defaults;  ///< keys of options that have their defaults again
  bool keeps_moments = false;         ///< begins with the optimizer's of the one before
  std::string note = "";              ///< for the user, on what is passed over behind it
};

/// A kind of work: what is read, which models there are, how they are judged.
///
/// set_defaults() and declare(), then the options are read, then settle() and prepare() for a new
/// run; for one that was trained before declare(), open(), then the options that were typed, then
/// evaluation_data().
class Task {
 public:
  virtual ~Task() = default;

  virtual std::string name() const = 0;  ///< of its models, such as "session model"

  /// Gives training's options the defaults of the task's models; called before they are declared.
  virtual void set_defaults(options::TrainingArguments& /*training*/) const {}

  /// Declares the sections model and data, and the task's own options of section train.
  virtual void declare(OptionTable& table) = 0;

  /// Throws UsageError where `file`, given as the TOML file of a run, is data of the task.
  virtual void check_config(const std::string& /*file*/) const {}

  /// Sets what follows from what was asked for; throws UsageError on options that do not fit
  /// together or have no effect. `table` is declare()'s, read.
  virtual void settle(OptionTable& table) = 0;

  /// Stretches of data to train on one after the other, each from the weights of the one before;
  /// empty: all data at once. After settle(). Throws UsageError and FileError that name the window.
  virtual std::vector<Window> windows() const { return {}; }
  /// Metrics that are printed for each window, less "eval_".
  virtual std::vector<std::string> main_metrics() const { return {"loss"}; }

  /// Options with what `convoy tune` tries unless told otherwise: a range, or values. By default
  /// the learning rate around the run's own.
  virtual std::vector<std::string> usual_trials(const options::TrainingArguments& training) const;

  /// Tells that the next prepare() is of a run that begins with the weights in `folder`, which are
  /// loaded by others.
  virtual void begin_with(const std::filesystem::path& /*folder*/) {}

  /// A new run, of which `parallel` says what a rank keeps. Throws UsageError and FileError that
  /// name the option or the file.
  virtual Run prepare(const options::ParallelArguments& parallel) = 0;

  /// Opens the model that a run left in `folder` or a checkpoint; the run's options go to `table`.
  virtual Run open(const std::filesystem::path& folder, OptionTable& table) = 0;

  /// Data to evaluate on after prepare() or open(): `where`, or the options' data; no data when
  /// both are empty.
  virtual NamedData evaluation_data(const std::string& where) = 0;

  /// Asks evaluations for more than their metrics: after open() and before evaluation_data().
  /// Throws UsageError where this task has no such.
  virtual void ask_details(const EvaluationDetails& details);
  /// Details of the last evaluation, that of evaluation_data() with the name `data`; adds to its
  /// metrics. On the main rank.
  virtual EvaluationReport report_details(const std::string& /*data*/,
                                          train::Metrics& /*metrics*/) {
    return {};
  }

  /// Rows of a split of the data in `where`, "" = of the run's, for evaluation_data(): `valid`, or
  /// `test` as convoy data sessions holds it out. Throws UsageError or FileError where there is no
  /// such split.
  virtual std::string split_of(const std::string& where, const std::string& split);

  /// A sentence with the metrics of a trivial model on the evaluation data; "" = none. After
  /// prepare().
  virtual std::string baseline() { return ""; }

  /// Declares the task's own options of `convoy predict`, section predict.
  virtual void declare_predict(OptionTable& /*table*/) {}
  /// A request and its answer for `convoy predict --help`, with the keys of requests; "" = the task
  /// answers none.
  virtual std::string requests_help() const { return ""; }
  /// Predicts with `run`, which open() gave. Throws UsageError when this task has no predictions.
  virtual void predict(const PredictionRequest& prediction, const Run& run,
                       const options::TrainingArguments& training) = 0;
};

/// Opens the run in `folder`: reads run.toml, where it is there, into `table`, and returns
/// config.json. Throws UsageError, naming the checkpoint to take instead, unless `folder` holds a
/// trained model.
Json open_trained(const std::filesystem::path& folder, OptionTable& table);

/// Adds the tasks' own sub-commands to `convoy data`: each stores what it does in `work`.
void add_data_commands(CLI::App& data, Work& work);

/// Functions of the program that a task's command needs.
using UseRun = std::function<void(Task&, const Run&, const options::TrainingArguments&)>;
struct Program {
  /// Returns the exit code when this process only started the ranks, which are asked for or not.
  std::function<std::optional<int>(const std::optional<int64_t>& nproc)> launch_ranks;
  /// Opens what a run left in a folder, as the command line has it.
  std::function<void(const std::string& folder, const UseRun& use)> open;
  std::function<void(const std::vector<std::string>& notes)> tell;
};

/// Adds `convoy generate`.
void add_generate(CLI::App& app, Work& work, const Program& program);
/// Adds `convoy export`.
void add_export(CLI::App& app, Work& work, const Program& program);

/// A kind of task, as the program finds it.
struct TaskKind {
  std::string name;  ///< value of model.task
  /// Returns the families of models that it takes, as model.family has them.
  std::function<std::vector<std::string>()> families;
  std::function<std::unique_ptr<Task>(const std::string& family)> make;
  bool by_name = false;  ///< goes only where model.task asks for it: another takes its families too
  /// Adds the task's own sub-commands to `convoy data`, if it has any.
  std::function<void(CLI::App& data, Work& work)> add_data_commands = {};
};

/// Adds a kind of task: at the start of a program, before anything reads one.
void add_task(TaskKind kind);

/// Names of the model families of all tasks: session, those of language models, and added ones.
std::vector<std::string> families();

/// Returns the kinds of tasks that go only by name, each with a family that it takes.
std::vector<std::pair<std::string, std::string>> tasks_by_name();

/// Returns the task that a command line is about: by the family (--family, --model_type) that is
/// typed or stands in its TOML file, or by the config.json of the folder that is named; session
/// where nothing says otherwise. `opens`: the command takes the folder of a trained model. Throws
/// UsageError on an unknown family.
std::unique_ptr<Task> find_task(const std::vector<std::string>& arguments, bool opens);

/// Whether data cannot be drawn (random_tokens) for the model that a config.json describes.
bool needs_own_data(const std::filesystem::path& config);

}  // namespace convoy::tasks
