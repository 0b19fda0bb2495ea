#include <memory>

#include "cli/commands.h"
#include "cli/program.h"
#include "cli/ranks.h"
#include "convoy/base/error.h"
#include "convoy/train/console.h"
#include "convoy/train/session_run.h"

namespace convoy::cli {

namespace {

struct EvalOptions {
  std::string folder;
  std::string data;
  bool json = false;
  int64_t nproc = 1;
};

int run_eval(const EvalOptions& options) {
  if (auto code = launch_ranks(options.nproc)) return *code;
  Configured configured;
  auto run = train::open_session_run(options.folder, configured.config, configured.table);
  auto& config = configured.config;
  config.training.parallel = {};  // how it was trained does not matter now
  configured.table.take_overrides(typed_args());
  configured.table.check();
  auto file = options.data.empty() ? config.data.valid_file() : train::valid_in(options.data);
  if (file.empty()) {
    fail<UsageError>("cli", "the run names no evaluation data; try --data FILE.parquet");
  }
  auto job = train::join_job(config.training.parallel);
  train::Trainer trainer(run.factory, config.training, nullptr, nullptr, job);
  trainer.load_weights(options.folder);
  auto metrics = trainer.evaluate(*train::open_sessions(file, run, config.data), "eval_");
  if (!job.is_main()) return 0;
  if (options.json) {
    fmt::print("{}\n", Json(metrics).dump(2));
  } else {
    fmt::print("{}: {:.0f} rows, {}\n", file, metrics.at("eval_samples"),
               train::metrics_text(metrics));
  }
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Run& run) {
  auto options = std::make_shared<EvalOptions>();
  auto* command = app.add_subcommand("eval", "Evaluate a trained model");
  command->add_option("folder", options->folder, "output folder of a run, or a checkpoint in it")
      ->required();
  command->add_option("--data", options->data, "Parquet to evaluate on; default: the run's own");
  command->add_flag("--json", options->json, "print the metrics as JSON");
  command->add_option("--nproc", options->nproc, "start this many ranks on this host");
  command->footer(
      "Examples:\n  convoy eval runs/first\n"
      "  convoy eval runs/first/checkpoint-500 --data test.parquet --json\n");
  command->callback([options, &run] { run = [options] { return run_eval(*options); }; });
}

}  // namespace convoy::cli
