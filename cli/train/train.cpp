#include <csignal>
#include <memory>

#include "cli/commands.h"
#include "cli/launch/ranks.h"
#include "cli/plan/plan_settings.h"
#include "cli/plan/planned.h"
#include "cli/program.h"
#include "cli/train/train_run.h"
#include "cli/train/windows.h"
#include "cli/typed.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/launch/process.h"
#include "convoy/launch/stop_signal.h"

namespace convoy::cli {

namespace {

struct TrainOptions {
  std::string config;
  bool print_config = false;
  bool no_final_evaluation = false;
  std::optional<int64_t> nproc;
  std::optional<double> interrupt_grace;  // seconds
};

/// Throws UsageError where the run was planned for other ranks, unless these are the rest after a
/// restart.
void check_planned(const options::PlannedStep& planned, const job::Job& job) {
  const int ranks = job.num_devices();
  if (planned.ranks == 0 || planned.ranks == ranks || job.environment.restart_count > 0) return;
  fail<UsageError>(
      "cli",
      "this run was planned for {}; got {}; try --nproc {}, or plan for {}: convoy plan "
      "--ranks {}; --planned_ranks 0 trains it as it is",
      plural(planned.ranks, "rank"), ranks, planned.ranks, ranks, ranks);
}

int run_train(const TrainOptions& options) {
  auto configured = read_config(options.config);
  if (options.print_config) {
    fmt::print("{}", configured->table.to_toml(true));
    return 0;
  }
  check_plans(*configured);
  drop_prediction_of_others(*configured);
  if (options.interrupt_grace && !options.nproc) {
    fail<UsageError>("cli",
                     "--interrupt-grace is for ranks that this command starts; try --nproc 2, or "
                     "convoy launch --interrupt-grace {:g}",
                     *options.interrupt_grace);
  }
  if (auto code = launch_ranks(options.nproc, options.interrupt_grace)) {
    return *code;
  }
  launch::leave_on_stop_signals();
  std::signal(SIGPIPE, SIG_IGN);  // who watches may leave; progress is no result
  const auto windows = configured->task->windows();
  if (!windows.empty()) check_windows(*configured, windows);
  std::string plan;
  const auto job = job::join_job(configured->training.parallel,
                                 [&](const job::Job& met, const job::MetRanks& ranks) {
                                   return decide(options.config, *configured, met, ranks, plan);
                                 });
  check_planned(configured->training.parallel.planned, job);
  if (!windows.empty()) return train_windows(*configured, windows, job);
  Start start;
  start.evaluates = !options.no_final_evaluation;
  return train_run(*configured, job, start, plan).exit_code;
}

}  // namespace

void add_train(CLI::App& app, RunCommand& run) {
  auto options = std::make_shared<TrainOptions>();
  auto* command = app.add_subcommand("train", "Train a model");
  command->add_option("config", options->config, "TOML file of the run");
  command->add_flag("--print-config", options->print_config,
                    "print the whole configuration as TOML, with help, and exit");
  command
      ->add_flag("--no-final-evaluation", options->no_final_evaluation,
                 "end without evaluating the trained model")
      ->group("");  // of trials
  command->add_option("--nproc", options->nproc, "start this many ranks on this host");
  command->add_option(
      "--interrupt-grace,--interrupt_grace", options->interrupt_grace,
      "with --nproc: seconds that ranks have to save after a signal (30, under SLURM "
      "what the job has left)");
  command->footer([] {
    Configured configured;
    return "Every option can be set in the TOML file under its [section], or on the command line "
           "as --section.name VALUE or --name VALUE.\n" +
           configured.table.help_text(help_all()) +
           (help_all() ? ""
                       : "\nThese are the common ones: `convoy train --help all` shows all.\n") +
           "\nExamples:\n"
           "  convoy train run.toml\n"
           "  convoy train run.toml --learning_rate 1e-3 --bf16\n"
           "  convoy train --data.path data --output_dir runs/first --num_train_epochs 10\n"
           "  convoy train run.toml --nproc 2\n"
           "  convoy train run.toml --windows clicks --start 1 --end 7 --output_dir runs/clicks\n"
           "  convoy train run.toml --nproc 2 --strategy plan --global_batch_size 64\n"
           "  convoy launch -n 2 train run.toml\n";
  });
  command->callback([options, &run] { run = [options] { return run_train(*options); }; });
}

}  // namespace convoy::cli
