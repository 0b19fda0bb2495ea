#include <fmt/format.h>
#include <torch/version.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/launch/ranks.h"
#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/bench/loader.h"
#include "convoy/bench/save.h"
#include "convoy/bench/step.h"
#include "convoy/bench/strategies.h"
#include "convoy/launch/stop_signal.h"
#include "convoy/launch/supervise/temporary_folder.h"
#include "convoy/machine/host.h"
#include "convoy/options/batch.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/report/progress_line.h"

namespace convoy::cli {

namespace {

namespace fs = std::filesystem;
using report::line;

struct StrategiesFlags : bench::StrategiesOptions {
  std::string output;
};

int bench_strategies(StrategiesFlags flags) {
  const auto configured = read_config(flags.config);
  auto& arguments = configured->training;
  options::hold_batch(arguments, 1);
  flags.overrides = typed_overrides();
  const bool keep = !flags.output.empty();
  std::optional<launch::TemporaryFolder> temporary;
  if (!keep) temporary.emplace(unique_folder("convoy-bench"));
  const fs::path output = keep ? fs::path(flags.output) : temporary->path();
  make_folder(output);  // where the first run may offload to
  const auto lines = machine::machine_lines({{"torch", TORCH_VERSION}});
  const auto write = [&](const bench::StrategiesResult& result, const std::string& baseline) {
    std::string markdown;
    for (const auto& text : lines) markdown += text + "  \n";
    markdown += "\n" + result.table.to_markdown() + "\n" + baseline + "\n";
    write_file(output / "strategies.md", markdown);
    write_file(output / "strategies.json", bench::strategies_json(result.rows).dump(2) + "\n");
    write_file(output / "strategies.svg",
               bench::strategies_svg(result.rows, "The same training, strategy by strategy",
                                     lines.empty() ? "" : lines.front()));
  };
  const auto result = bench::compare_strategies(
      flags, arguments, output,
      [](const std::string& next) {
        fmt::print("\n== {}\n", next);
        std::fflush(stdout);
      },
      [&](const bench::StrategiesResult& so_far) {
        if (keep) write(so_far, "");
      });
  fmt::print("\n");
  for (const auto& text : lines) fmt::print("{}\n", text);
  configured->task->prepare(arguments.parallel);
  const auto baseline = configured->task->baseline();
  fmt::print("\n{}\n{}\n", result.table.to_markdown(), baseline);
  const auto failed = std::count_if(result.rows.begin(), result.rows.end(),
                                    [](const auto& row) { return !row.failure.empty(); });
  if (failed > 0) {
    fmt::print("\n{} of {} trainings failed; their messages stand above\n", failed,
               result.rows.size());
  }
  if (keep) {
    write(result, baseline);
    fmt::print("\nwrote {0}/strategies.json, {0}/strategies.md and {0}/strategies.svg\n",
               output.string());
  }
  return failed > 0 ? 1 : 0;
}

void add_strategies(CLI::App& app, RunCommand& run) {
  auto flags = std::make_shared<StrategiesFlags>();
  auto* command = app.add_subcommand(
      "strategies", "Train the same job with each strategy and compare speed and quality");
  command->add_option("config", flags->config, "TOML file of the run")->required();
  command
      ->add_option(
          "--strategies", flags->strategies,
          "single, dp, ddp, zero1 to zero3, also zero3-hybrid and zero3-disk; pipelines: " +
              join(parallel::pipeline_schedule_names()) +
              ", also 1f1b-2d (two data-parallel pipelines); tensor-parallel: tp over all ranks, "
              "tp-sp with sequence parallelism, dp-tp and pp-tp with pairs of tensor-parallel "
              "ranks that are data-parallel or pipeline stages, 3d (two stages of pairs, and ZeRO "
              "1); context-parallel over all ranks: cp")
      ->delimiter(',');
  command->add_option("--ranks", flags->ranks, "numbers of ranks for all strategies except single")
      ->delimiter(',');
  command
      ->add_option("--chunks", flags->chunks,
                   "numbers of micro-batches to try for pipelines; default: 4 per stage, or fewer "
                   "that divide the batch")
      ->delimiter(',');
  command
      ->add_option("--learning_rates,--learning-rates", flags->learning_rates,
                   "learning rates to try with every strategy; default: the run's")
      ->delimiter(',');
  command->add_option("--output", flags->output,
                      "folder for strategies.json, strategies.md, strategies.svg and the runs");
  command->add_flag("--per-device,--per_device", flags->per_device,
                    "keep the batch size per device, and run ddp also over a slow link: the "
                    "experiment of Hugging Face's multi-GPU guide");
  const auto pipelines = join(parallel::pipeline_schedule_names(), ",");
  command->footer(
      "The total batch size and the number of steps are the same for all; each training is a fresh "
      "process with one thread per rank unless --threads is given.\n"
      "With --per-device each device keeps the run's batch size, so more devices process more "
      "samples in the same number of steps.\n"
      "Examples:\n  convoy bench strategies run.toml --strategies single,dp,ddp --ranks 2 "
      "--output runs/compare\n  convoy bench strategies run.toml --strategies single," +
      pipelines +
      " --chunks 1,2,4,8\n  convoy bench strategies run.toml --strategies ddp,zero1-hybrid "
      "--ranks 4\n  convoy bench strategies run.toml --learning_rates 5e-4,1e-3\n"
      "  convoy bench strategies run.toml --strategies "
      "single,ddp,zero1,1f1b,tp,tp-sp,dp-tp,"
      "pp-tp,3d --ranks 8\n");
  command->callback([flags, &run] { run = [flags] { return bench_strategies(*flags); }; });
}

struct StepFlags : bench::StepBenchOptions {
  std::string config;
  std::optional<int64_t> nproc;
  bool json = false;
};

int bench_step(const StepFlags& flags) {
  if (flags.steps < 1) fail<UsageError>("cli", "--steps = {}; expected at least 1", flags.steps);
  const auto configured = read_config(flags.config);
  if (auto code = launch_ranks(flags.nproc)) return *code;
  const auto times = bench::time_steps(*configured->task, configured->training, flags);
  if (!times) return 0;
  fmt::print("{}", flags.json ? to_json(*times).dump(2) + "\n" : to_text(*times));
  return 0;
}

void add_step(CLI::App& app, RunCommand& run) {
  auto flags = std::make_shared<StepFlags>();
  auto* command = app.add_subcommand("step", "Time training steps after a warm-up");
  command->add_option("config", flags->config, "TOML file of the run")->required();
  command->add_option("--steps", flags->steps, "steps to time");
  command->add_option("--warmup", flags->warmup, "warm-up steps before that");
  command
      ->add_option("--peak_tflops,--peak-tflops", flags->peak_tflops,
                   "a device's dense peak TFLOPS, for the MFU; default: by the GPU's name")
      ->check(above_zero());
  command->add_option("--nproc", flags->nproc, "ranks on this host");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "On a GPU one more step runs to count kernel launches and waits.\n"
      "Example:\n  convoy bench step run.toml --steps 50 --nproc 2 --threads 1 --json\n");
  command->callback([flags, &run] { run = [flags] { return bench_step(*flags); }; });
}

struct SaveFlags : bench::SaveOptions {
  std::string config;
  std::optional<int64_t> nproc;
  bool json = false;
};

/// Environment variable with the folder of the files, for ranks that this process starts. The
/// process outlives them, and removes the files that they leave.
constexpr const char* kSaveFolder = "CONVOY_BENCH_SAVE_FOLDER";

int bench_save(SaveFlags flags) {
  const auto configured = read_config(flags.config);
  std::optional<launch::TemporaryFolder> made;
  if (flags.nproc.value_or(1) > 1) {
    const auto folder = fs::absolute(bench::new_save_folder(flags.folder));
    made.emplace(folder);
    ::setenv(kSaveFolder, folder.c_str(), 1);
  }
  if (auto code = launch_ranks(flags.nproc)) return *code;
  launch::leave_on_stop_signals();
  if (const char* given = std::getenv(kSaveFolder)) flags.within = given;
  const auto times = bench::time_saves(*configured->task, configured->training, flags);
  if (!times) return 0;
  if (flags.json) {
    fmt::print("{}\n", to_json(*times).dump(2));
    return 0;
  }
  const auto& t = *times;
  const auto bytes = static_cast<double>(t.bytes);
  const auto rate = [&](const char* what, double took, const char* plain, double plainly) {
    line(what, "{}, {:.0f} MB/s: {:.0f} % of {} ({:.0f} MB/s)", human_seconds(took),
         bytes / took / 1e6, 100 * plainly / took, plain, bytes / plainly / 1e6);
  };
  line("state", "{} of weights and moments", human_bytes(bytes));
  rate("save", t.save, "plain_write", t.plain_write);
  rate("load", t.load, "plain_read", t.plain_read);
  line("blocked", "{:.0f} ms per save, {:.2f}x a copy of what a rank owns", t.held_up * 1e3,
       t.held_up / t.copy);
  line("steps", "{:.0f} ms during a save, {:.2f}x those without", t.step_during * 1e3,
       t.step_during / t.step_without);
  return 0;
}

void add_save(CLI::App& app, RunCommand& run) {
  auto flags = std::make_shared<SaveFlags>();
  auto* command =
      app.add_subcommand("save", "Time checkpoints: saving, loading, and training meanwhile");
  command->add_option("config", flags->config, "TOML file of the run")->required();
  command->add_option("--folder", flags->folder, "where to write [.]");
  command->add_option("--rounds", flags->rounds, "times to save and load [3]")->check(at_least(1));
  command->add_option("--saves", flags->saves, "checkpoints during training [2]")
      ->check(at_least(1));
  command->add_option("--save-steps", flags->save_steps, "steps between checkpoints [12]")
      ->check(CLI::Range(4, 1000000));
  command->add_option("--nproc", flags->nproc, "ranks on this host");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Saves and loads weights and moments, synced and from the disk, and compares with plain I/O "
      "of as many bytes; then trains with checkpoints in the background and reports how long one "
      "blocks training, and how much slower steps are meanwhile.\n"
      "Example:\n  convoy bench save run.toml --folder runs --nproc 2 --zero 2 --threads 1\n");
  command->callback([flags, &run] { run = [flags] { return bench_save(*flags); }; });
}

struct LoaderFlags {
  std::string config;
  int64_t epochs = 3;
  bool json = false;
};

int bench_loader(const LoaderFlags& flags) {
  if (flags.epochs < 1) fail<UsageError>("cli", "--epochs = {}; expected at least 1", flags.epochs);
  const auto configured = read_config(flags.config);
  const auto times = bench::time_loader(*configured->task, configured->training, flags.epochs);
  if (flags.json) {
    fmt::print("{}\n", to_json(times).dump(2));
    return 0;
  }
  fmt::print(
      "{} epochs, {} rows: {:.0f} rows/s (first epoch {:.0f}), first batch after {:.1f} ms\n",
      times.epochs, human_count(times.rows), times.rows_per_second,
      times.first_epoch_rows_per_second, times.first_batch_ms);
  return 0;
}

void add_loader(CLI::App& app, RunCommand& run) {
  auto flags = std::make_shared<LoaderFlags>();
  auto* command = app.add_subcommand("loader", "Read the training data without training");
  command->add_option("config", flags->config, "TOML file of the run")->required();
  command->add_option("--epochs", flags->epochs, "passes over the data [3]");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Rows per second that one rank's loader delivers as padded batches: compare with the "
      "samples/s "
      "of convoy bench step.\n"
      "Example:\n  convoy bench loader run.toml --data.memory_budget_mb 1 --data.shuffle_window "
      "1024\n");
  command->callback([flags, &run] { run = [flags] { return bench_loader(*flags); }; });
}

}  // namespace

void add_bench(CLI::App& app, RunCommand& run) {
  auto* command = app.add_subcommand("bench", "Measure training");
  command->require_subcommand(1);
  add_strategies(*command, run);
  add_step(*command, run);
  add_save(*command, run);
  add_loader(*command, run);
  add_bench_collectives(*command, run);
  add_bench_plan(*command, run);
  add_bench_batch(*command, run);
  add_bench_axes(*command, run);
}

}  // namespace convoy::cli
