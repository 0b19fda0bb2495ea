#include <memory>

#include "cli/commands.h"
#include "cli/launch/ranks.h"
#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/job/job.h"
#include "convoy/launch/stop_signal.h"
#include "convoy/tasks/evaluation_options.h"

namespace convoy::cli {

namespace {

struct PredictOptions : tasks::PredictionRequest {
  std::string split = "valid";
  std::optional<int64_t> nproc;
};

int run_predict(PredictOptions options) {
  if (auto code = launch_ranks(options.nproc)) return *code;
  launch::leave_on_stop_signals();
  Opened opened(options.folder);
  if (options.output == "-") opened.training.output.quiet = true;  // warnings: standard error
  job::check_whole_rows(opened.training.parallel);
  const auto* requests = opened.table.find("predict.requests");
  if (options.split != "valid" && requests != nullptr && requests->plain() == "true") {
    fail<UsageError>("cli",
                     "--split {} is for rows of data, of which --requests reads none; try "
                     "one of them",
                     options.split);
  }
  options.data = opened.task->split_of(options.data, options.split);
  opened.task->predict(options, opened.run, opened.training);
  return 0;
}

}  // namespace

void add_predict(CLI::App& app, RunCommand& run) {
  auto options = std::make_shared<PredictOptions>();
  options->tell = tell;
  auto* command = app.add_subcommand("predict", "Predict labels, items or tokens for rows of data");
  command->add_option("folder", options->folder, "output folder of a run, or a checkpoint in it")
      ->required();
  command->add_option("--data", options->data,
                      "data to predict for, - for the standard input; default: the run's own");
  tasks::add_split_option(*command, options->split);
  command->add_option("--rows", options->rows, "only the first N rows; 0 = all")
      ->check(at_least(0));
  command->add_option(
      "--output", options->output,
      "write .csv, .jsonl or .parquet instead of printing; - for CSV on the standard output");
  command->add_option("--nproc", options->nproc, "start this many ranks on this host");
  command->footer([] {
    return help_of_opened([](const tasks::Task& task) {
      return "Raw ids and names come from the tables stored with the run's weights, and from those "
             "beside the data.\n"
             "Examples:\n  convoy predict runs/first --rows 5\n"
             "  convoy predict runs/first --data today.parquet --output top.parquet --nproc 2\n"
             "  convoy predict runs/first --output - | head\n"
             "  convoy predict runs/gpt2_clm --data texts.txt --top-k 3\n" +
             task.requests_help();
    });
  });
  command->callback([options, &run] { run = [options] { return run_predict(*options); }; });
}

}  // namespace convoy::cli
