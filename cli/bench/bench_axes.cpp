#include <memory>
#include <utility>

#include "cli/asked.h"
#include "cli/commands.h"
#include "cli/plan/plan_settings.h"
#include "cli/tell_report.h"
#include "convoy/bench/axes.h"
#include "convoy/report/progress_line.h"

namespace convoy::cli {

namespace {

struct BenchAxesFlags : bench::AxesOptions {
  std::string config, output;
  bool json = false;
};

int bench_axes(const BenchAxesFlags& flags) {
  check_place("--output", flags.output, flags.config, "axes.json");
  const auto [configured, run] = ask_about(flags.config, {.tells = !flags.json});
  const TrialFolder folder;
  // A copy, for trials change the table's.
  const auto arguments = configured->training;
  set(configured->table, {{"train.global_batch_size", std::to_string(flags.rows)}});
  const auto train = [&, &configured = *configured](const parallel::Parallelism& split) {
    return bench::run_step(folder.write(configured, split), {}, split.num_ranks(), flags.steps);
  };
  report::ProgressLine progress("training");
  const auto report = bench::compare_axes(run, arguments, flags, train, progress.function());
  progress.wipe();
  auto json = bench::to_json(report);
  tell_report(std::move(json), bench::to_text(report), flags.output, flags.json);
  return report.trials.front().went_well() ? 0 : 1;
}

}  // namespace

void add_bench_axes(CLI::App& bench, RunCommand& run) {
  auto flags = std::make_shared<BenchAxesFlags>();
  auto* command = bench.add_subcommand(
      "axes", "Split a step by samples, attributes, parameters and operators, as FlexFlow does");
  add_config(*command, flags->config);
  command->add_option("--ranks", flags->num_ranks, "ranks on this host [2]")->check(at_least(2));
  command->add_option("--rows", flags->rows, "rows per step [10]")->check(at_least(1));
  command->add_option("--steps", flags->steps, "steps to time in each training [10]")
      ->check(at_least(1));
  command->add_option("--output", flags->output, "write the full results to this JSON file");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Takes the options of convoy train. A step is trained on one device, and split along each "
      "axis over fresh ranks: samples are data parallelism, attributes (positions of each row) "
      "context parallelism, parameters tensor parallelism, operators pipeline stages. It also "
      "prints how much placing operators of one block on different ranks could save at most, given "
      "their dependencies.\n"
      "Example:\n  convoy bench axes --family gpt2 --n_layer 4 --n_embd 256 --n_head 4 "
      "--resid_pdrop 0 --embd_pdrop 0 --attn_pdrop 0 --random_tokens 60000 --block_size 512 "
      "--threads 1\n");
  command->callback([flags, &run] { run = [flags] { return bench_axes(*flags); }; });
}

}  // namespace convoy::cli
