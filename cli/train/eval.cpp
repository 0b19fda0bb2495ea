#include <memory>

#include "cli/commands.h"
#include "cli/launch/ranks.h"
#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/base/piped_input.h"
#include "convoy/base/text.h"
#include "convoy/tasks/metrics_table.h"

namespace convoy::cli {

namespace {

struct EvalOptions {
  std::string folder;
  std::string data;
  bool json = false;
  std::optional<int64_t> nproc;
};

int run_eval(const EvalOptions& options) {
  if (auto code = launch_ranks(options.nproc)) return *code;
  Opened opened(options.folder);
  if (options.json) opened.training.output.quiet = true;  // warnings go to the standard error
  const auto& run = opened.run;
  const auto [name, data, notes] = opened.task->evaluation_data(options.data);
  if (!data) fail<UsageError>("cli", "the run names no evaluation data; try --data FILE");
  auto job = job::join_job(opened.training.parallel);
  train::Trainer trainer(run.factory, opened.training, nullptr, nullptr, job, run.fill);
  trainer.set_scorer(run.scorer);
  if (job.is_main()) {
    tell(*run.notes);
    tell(notes);
  }
  auto metrics = trainer.evaluate(*data, "eval_");
  if (!job.is_main()) return 0;
  if (options.json) {
    fmt::print("{}\n", Json(metrics).dump(2));
  } else {
    const auto rows = static_cast<int64_t>(metrics.at("eval_samples"));
    const auto title = fmt::format("{}, {}", input_name(name), plural(rows, "row"));
    fmt::print("{}", printable_lines(tasks::evaluation_text(title, metrics)));
  }
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Run& run) {
  auto options = std::make_shared<EvalOptions>();
  auto* command = app.add_subcommand("eval", "Evaluate a trained model");
  command->add_option("folder", options->folder, "output folder of a run, or a checkpoint in it")
      ->required();
  command->add_option("--data", options->data,
                      "data to evaluate on, - for the standard input; default: the run's own");
  command->add_flag("--json", options->json, "print the metrics as JSON");
  command->add_option("--nproc", options->nproc, "start this many ranks on this host");
  command->footer([] {
    return help_of_opened([](const tasks::Task&) {
      return "Examples:\n  convoy eval runs/first\n"
             "  convoy eval runs/first --data today --json\n"
             "  convoy eval runs/first/checkpoint-500 --data test.parquet --json\n";
    });
  });
  command->callback([options, &run] { run = [options] { return run_eval(*options); }; });
}

}  // namespace convoy::cli
