#include <memory>

#include "cli/commands.h"
#include "cli/launch/ranks.h"
#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/base/piped_input.h"
#include "convoy/base/text.h"
#include "convoy/comm/agree.h"
#include "convoy/tasks/evaluation_options.h"
#include "convoy/tasks/metrics_table.h"

namespace convoy::cli {

namespace {

struct EvalOptions {
  std::string folder, other;
  std::string data, split = "valid";
  bool json = false;
  tasks::EvaluationDetails details;
  std::optional<int64_t> nproc;
};

/// An evaluation of a run, on the main rank.
struct Evaluation {
  std::string data;
  train::Metrics metrics;
  tasks::EvaluationReport report;
};

/// `job`: joined here where it is not there.
Evaluation evaluate(const std::string& folder, const EvalOptions& options,
                    std::optional<job::Job>& job) {
  Opened opened(folder);
  if (options.json) opened.training.output.quiet = true;  // warnings go to the standard error
  const auto& run = opened.run;
  opened.task->ask_details(options.details);
  const auto where = opened.task->split_of(options.data, options.split);
  const auto [name, data, notes] = opened.task->evaluation_data(where);
  if (!data) fail<UsageError>("cli", "the run names no evaluation data; try --data FILE");
  if (!job) job = job::join_job(opened.training.parallel);
  train::Trainer trainer(run.factory, opened.training, nullptr, nullptr, *job, run.fill);
  trainer.set_scorer(run.scorer);
  if (job->is_main()) {
    tell(*run.notes);
    tell(notes);
  }
  Evaluation out{name, trainer.evaluate(*data, "eval_"), {}};
  // The other ranks wait for the main rank's report, as another evaluation may follow.
  comm::ask_main(
      job->world(), "report an evaluation",
      [&, &name = name] {
        out.report = opened.task->report_details(name, out.metrics);
        return Json();
      },
      comm::Lasts::Long);
  if (job->is_main()) tell(out.report.notes);
  return out;
}

void print(const Evaluation& evaluation, bool json) {
  if (json) {
    Json all(evaluation.metrics);
    all.update(evaluation.report.json);
    fmt::print("{}\n", all.dump(2));
    return;
  }
  const auto rows = static_cast<int64_t>(evaluation.metrics.at("eval_samples"));
  const auto title = fmt::format("{}, {}", input_name(evaluation.data), plural(rows, "row"));
  fmt::print("{}", printable_lines(tasks::evaluation_text(title, evaluation.metrics) +
                                   evaluation.report.text));
}

int run_eval(EvalOptions options) {
  if (auto code = launch_ranks(options.nproc)) return *code;
  options.details.compared = !options.other.empty();
  if (options.details.compared && (options.details.lists || options.details.segments)) {
    fail<UsageError>("cli",
                     "--metrics all and --segments are of one run, and two are named; try convoy "
                     "eval of each");
  }
  std::optional<job::Job> job;
  const auto first = evaluate(options.folder, options, job);
  if (!options.details.compared) {
    if (job->is_main()) print(first, options.json);
    return 0;
  }
  const auto second = evaluate(options.other, options, job);
  if (!job->is_main()) return 0;
  const auto comparison = tasks::compare_rows(first.report.rows, second.report.rows,
                                              options.details.bootstrap, options.details.seed);
  fmt::print("{}", options.json ? comparison.to_json().dump(2) + "\n"
                                : printable_lines(comparison.to_text()));
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, RunCommand& run) {
  auto options = std::make_shared<EvalOptions>();
  auto* command = app.add_subcommand("eval", "Evaluate a trained model, or compare two");
  command->add_option("folder", options->folder, "output folder of a run, or a checkpoint in it")
      ->required();
  command->add_option("other", options->other, "another run, to compare with the first row by row");
  command->add_option("--data", options->data,
                      "data to evaluate on, - for the standard input; default: the run's own");
  tasks::add_split_option(*command, options->split);
  tasks::add_detail_options(*command, options->details);
  command->add_flag("--json", options->json, "print the metrics as JSON");
  command->add_option("--nproc", options->nproc, "start this many ranks on this host");
  command->footer([] {
    return help_of_opened([](const tasks::Task&) {
      return "Examples:\n  convoy eval runs/first\n"
             "  convoy eval runs/first --data today --json\n"
             "  convoy eval runs/first/checkpoint-500 --data test.parquet --json\n"
             "  convoy eval runs/first --split test --metrics all --segments --bootstrap 1000\n"
             "  convoy eval runs/first runs/second --split test --bootstrap 1000\n";
    });
  });
  command->callback([options, &run] { run = [options] { return run_eval(*options); }; });
}

}  // namespace convoy::cli
