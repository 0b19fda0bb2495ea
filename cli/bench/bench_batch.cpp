#include <memory>
#include <utility>

#include "cli/asked.h"
#include "cli/commands.h"
#include "cli/plan/plan_settings.h"
#include "cli/tell_report.h"
#include "convoy/bench/batches.h"
#include "convoy/report/progress_line.h"

namespace convoy::cli {

namespace {

struct BenchBatchFlags : bench::BatchOptions {
  std::string config, output;
  bool json = false;
};

int bench_batch(const BenchBatchFlags& flags) {
  check_place("--output", flags.output, flags.config, "batch.json");
  const auto [configured, run] = ask_about(flags.config, {.tells = !flags.json});
  const TrialFolder folder;
  const auto train = [&, &configured = *configured](int64_t rows) {
    set(configured.table, {{"train.per_device_train_batch_size", std::to_string(rows)},
                           {"train.auto_find_batch_size", "false"}});
    return bench::run_step(folder.write(configured), {}, flags.num_ranks, flags.steps);
  };
  report::ProgressLine progress("training");
  // A copy, for `train` changes the table's.
  const auto arguments = configured->training;
  const auto report = bench::try_batches(run, arguments, flags, train, progress.function());
  progress.wipe();
  auto json = bench::to_json(report);
  json["ranks"] = flags.num_ranks;
  tell_report(std::move(json), bench::to_text(report), flags.output, flags.json);
  return report.trials.front().went_well() ? 0 : 1;
}

}  // namespace

void add_bench_batch(CLI::App& bench, RunCommand& run) {
  auto flags = std::make_shared<BenchBatchFlags>();
  auto* command = bench.add_subcommand(
      "batch", "Compare micro-batch sizes: speed and memory, predicted and measured");
  add_asked(*command, flags->config, flags->num_ranks, "ranks on this host [1]");
  command->add_option("--rows", flags->rows, "rows per micro-batch to try [1,2,4 and so on]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(at_least(1));
  command
      ->add_option("--max_rows,--max-rows", flags->most_rows,
                   "maximum rows per micro-batch, without --rows [64]")
      ->check(at_least(1));
  command->add_option("--steps", flags->steps, "steps to time in each training [10]")
      ->check(at_least(1));
  command->add_option("--output", flags->output, "write the full results to this JSON file");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Takes the options of convoy train; only per_device_train_batch_size changes. With "
      "--global_batch_size the rows per step stay the same, else gradient_accumulation_steps does. "
      "Each size is trained in fresh ranks. It stops at the first size that does not fit, in "
      "memory or into the step, and says why.\n"
      "Examples:\n  convoy bench batch run.toml\n"
      "  convoy bench batch run.toml --ranks 2 --threads 1 --rows 4,8,16 --global_batch_size 64\n"
      "  convoy bench batch run.toml --device_memory 2GB --json\n");
  command->callback([flags, &run] { run = [flags] { return bench_batch(*flags); }; });
}

}  // namespace convoy::cli
