#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "cli/commands.h"
#include "cli/plan/plan_settings.h"
#include "cli/program.h"
#include "cli/train/kept_run.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json_value.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/conformance/run_log.h"
#include "convoy/job/job.h"
#include "convoy/launch/environment.h"
#include "convoy/report/table.h"
#include "convoy/train/loop/block_numbers.h"
#include "convoy/train/state.h"
#include "convoy/train/trainer.h"

namespace convoy::cli {

namespace {

namespace fs = std::filesystem;

struct ReplayOptions {
  std::string folder;
  int64_t step = 0;
  bool json = false;
};

/// Ends a training after the step that was asked for.
struct Replayed {};

class StopAfter : public train::Callback {
 public:
  explicit StopAfter(int64_t step) : step_(step) {}
  void on_step(const train::StepTiming& timing) override {
    if (timing.step < step_) return;
    loss = timing.loss;
    throw Replayed();
  }
  double loss = 0;

 private:
  int64_t step_;
};

/// Rows of a step of the run, from its state, or else as the options of one rank give them.
int64_t rows_of_step(const KeptRun& kept, const options::TrainingArguments& training) {
  if (const auto file = kept.folder / checkpoint::kState; fs::exists(file)) {
    return value_from<int64_t>(parse_json(read_file(file), file.string()).at("step_samples"));
  }
  return training.global_batch_size.value_or(training.per_device_train_batch_size *
                                             training.gradient_accumulation_steps);
}

/// Settings that train the same rows on one device and write nothing.
Settings settings_of_replay(const Configured& configured, const KeptRun& kept,
                            const fs::path& checkpoint) {
  const auto& training = configured.training;
  const int64_t all = rows_of_step(kept, training);
  int64_t rows = std::min(all, training.per_device_train_batch_size);
  while (all % rows != 0) --rows;  // micro-batches of equal size
  auto out = settings_of_run({.rows = rows, .micro_batches = all / rows}, configured.table);
  const auto trial = settings_of_trial();
  out.insert(out.end(), trial.begin(), trial.end());
  const Settings more{{"parallel.backend", "auto"},
                      {"parallel.row_tables", "false"},
                      {"parallel.offload_dir", ""},
                      {"train.save_strategy", "no"},
                      {"train.resume_from_checkpoint", checkpoint.string()},
                      {"output.dir", ""},
                      {"output.overwrite", "false"}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

struct Replay {
  train::BlockRecorder numbers;
  std::vector<std::string> names;  ///< of blocks
  double loss = 0;
  std::string error = "";  ///< why the step ended: a number was not finite
};

void replay(Configured& configured, const BeganWith& began, int64_t step, Replay& out) {
  configured.task->begin_with(began.weights);
  auto run = configured.task->prepare(configured.training.parallel);
  const auto job = job::join_job(configured.training.parallel);
  for (const auto& block : run.factory()) out.names.push_back(block->name());
  train::Trainer trainer(run.factory, configured.training, run.train_data, nullptr, job, run.fill);
  const bool resumes = !configured.training.resume_from_checkpoint.empty();
  if (!resumes && !began.weights.empty()) trainer.load_weights(began.weights);
  if (!resumes && !began.moments.empty()) trainer.load_moments(began.moments);
  trainer.set_files(run.files);
  if (run.begin) trainer.before_first_step([&] { run.begin(trainer); });
  trainer.observe(out.numbers, step);
  const auto stop = std::make_shared<StopAfter>(step);
  trainer.add_callback(stop);
  try {
    trainer.train();
  } catch (const Replayed&) {
    out.loss = stop->loss;
    return;
  } catch (const NumericError& error) {  // the step itself: its blocks tell where
    if (out.numbers.numbers().empty()) throw;
    out.error = error.what();
    out.loss = NAN;
    return;
  }
  fail<UsageError>("cli", "--step {}: the run ends with step {}", step,
                   trainer.state().global_step);
}

/// Loss of the run's log that a step is in.
struct Logged {
  double loss = NAN;
  int64_t first = 0, last = 0;  ///< steps whose mean it is; 0: the log has none

  bool is_one() const { return first == last && last > 0; }
  std::string to_text() const {
    return is_one() ? fmt::format(" (the run logged {:.6g})", loss)
                    : fmt::format(" (the run logged {:.6g}, the mean of steps {} to {})", loss,
                                  first, last);
  }
};

Logged logged_loss(const fs::path& run, int64_t step) try {
  const auto log = conformance::read_run_log(run, "");
  const auto found = log.losses.lower_bound(step);
  if (found == log.losses.end() || log.first_of(found->first) > step) return {};
  return {found->second, log.first_of(found->first), found->first};
} catch (const FileError&) {  // it logged no step
  return {};
}

/// Sentence where the step's loss is not the logged one; "" where it is, or nothing was logged.
std::string deviation_text(const Logged& logged, double loss, bool half_precision) {
  if (!logged.is_one()) return "";
  const double most = half_precision ? 2e-2 : 1e-3;
  const bool both = std::isfinite(loss) && std::isfinite(logged.loss);
  const bool neither = !std::isfinite(loss) && !std::isfinite(logged.loss);
  if (neither || (both && std::abs(loss - logged.loss) <= most * std::abs(logged.loss))) return "";
  return fmt::format(
      "warning: the run logged a loss of {:.6g}, this step has {:.6g}: it is not the run's step; "
      "look whether its data or this program changed, or its options and rows where it was "
      "resumed",
      logged.loss, loss);
}

/// Returns the options with which the run trained a step, with its state.
KeptRun kept_for(const fs::path& folder, int64_t step) {
  auto kept = kept_of_step(folder, step);
  if (!kept.folder.empty()) return kept;
  if (fs::exists(folder / "log.jsonl")) {
    fail<UsageError>("cli",
                     "{} ended before it saved anything, so its options are not known; try to "
                     "train it again with --save_steps below {}",
                     folder.string(), step);
  }
  fail<UsageError>("cli", "{} is no output folder of a run: it has no run.toml", folder.string());
}

std::string number_text(double value) {
  return fmt::format("{:.4g}", value);
}

void print_table(const Replay& replay) {
  report::Table table;
  table.column("block", report::Align::kLeft).column("", report::Align::kLeft);
  table.column("norm").column("largest").column("not finite");
  for (const auto& one : replay.numbers.numbers()) {
    table.row({replay.names.at(static_cast<size_t>(one.block)),
               one.is_gradient ? "gradient" : "output", number_text(one.norm()),
               number_text(one.largest), std::to_string(one.not_finite)});
  }
  fmt::print("{}", table.to_text());
}

Json to_json(const Replay& replay, const Logged& logged) {
  Json blocks = Json::array();
  for (const auto& one : replay.numbers.numbers()) {
    blocks.push_back({{"block", replay.names.at(static_cast<size_t>(one.block))},
                      {"of", one.is_gradient ? "gradient" : "output"},
                      {"norm", one.norm()},
                      {"largest", one.largest},
                      {"not_finite", one.not_finite},
                      {"micro_batch", one.micro_batch},
                      {"sample", one.sample}});
  }
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  return {{"loss", number(replay.loss)},
          {"logged_loss", logged.is_one() ? number(logged.loss) : Json()},
          {"error", replay.error},
          {"blocks", blocks}};
}

int run_replay(const ReplayOptions& options) {
  if (launch::detect_environment().launched()) {
    fail<UsageError>("cli", "convoy replay trains on one device; try it without a launcher");
  }
  const fs::path folder = options.folder;
  const auto kept = kept_for(folder, options.step);
  const auto checkpoint = checkpoint_before(folder, options.step);
  const auto began = began_with(folder, kept, checkpoint.empty());
  auto configured = read_config(kept.options().string());
  set(configured->table, settings_of_replay(*configured, kept, checkpoint));
  Replay result;
  replay(*configured, began, options.step, result);
  const auto logged = logged_loss(folder, options.step);
  const auto& training = configured->training;
  if (auto text = deviation_text(logged, result.loss, training.bf16 || training.fp16);
      !text.empty()) {
    tell({std::move(text)});
  }
  if (options.json) {
    fmt::print("{}\n", to_json(result, logged).dump(2));
    return result.numbers.first_not_finite() == nullptr && result.error.empty() ? 0 : 1;
  }
  fmt::print("Step {}, from {}: loss {:.6g}", options.step,
             checkpoint.empty() ? "the start" : checkpoint.filename().string(), result.loss);
  if (logged.last > 0) fmt::print("{}", logged.to_text());
  fmt::print("\n\n");
  print_table(result);
  const auto* bad = result.numbers.first_not_finite();
  if (bad == nullptr && result.error.empty()) return 0;
  if (bad == nullptr) {  // in the gradient of a weight, say
    fmt::print(
        "\n{}\n",
        wrap(fmt::format("What the blocks pass on is finite, but the step ended: {}", result.error),
             0));
    return 1;
  }
  fmt::print("\nThe first number that is not finite is in the {} of {}, micro-batch {}{}.\n",
             bad->is_gradient ? "gradient" : "output",
             result.names.at(static_cast<size_t>(bad->block)), bad->micro_batch,
             bad->sample < 0 ? "" : fmt::format(", sample {} of the step", bad->sample));
  return 1;
}

}  // namespace

void add_replay(CLI::App& app, RunCommand& run) {
  auto options = std::make_shared<ReplayOptions>();
  auto* command = app.add_subcommand(
      "replay", "Compute a step of a run again, and show what each block made of it");
  command->add_option("folder", options->folder, "output folder of a run")->required();
  command->add_option("--step", options->step, "the step to look into, from 1")
      ->required()
      ->check(at_least(1));
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "Trains from the newest checkpoint before the step, or from the start, on one device and "
      "without writing anything; then prints norm, largest magnitude and the number of elements "
      "that are not finite of every block's output and gradient. The exit code is 1 where an "
      "element is not finite: the block, the micro-batch and the sample are named. A run that did "
      "not finish can be replayed where it saved a checkpoint.\n"
      "Examples:\n"
      "  convoy replay runs/first --step 120\n"
      "  convoy replay runs/first --step 120 --json\n");
  command->callback([options, &run] { run = [options] { return run_replay(*options); }; });
}

}  // namespace convoy::cli
