#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/launch/ranks.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/bench/collectives.h"
#include "convoy/comm/engine_registry.h"
#include "convoy/comm/measure.h"
#include "convoy/launch/environment.h"
#include "convoy/machine/host.h"
#include "convoy/report/live_line.h"
#include "convoy/report/progress_output.h"

namespace convoy::cli {

namespace {

namespace fs = std::filesystem;

struct CollectivesFlags : bench::CollectivesOptions {
  bool json = false;
  std::string output;
  std::string results;  ///< where a rank leaves its times for the process that started it
};

void show(const CollectivesFlags& flags, const std::vector<bench::CollectiveTime>& times) {
  const auto lines = machine::machine_lines({{"torch", TORCH_VERSION}});
  if (flags.json) {
    fmt::print("{}\n", bench::collectives_json(times).dump(2));
  } else {
    for (const auto& text : lines) fmt::print("{}\n", text);
    fmt::print("\n{}", bench::collectives_text(times));
  }
  if (flags.output.empty()) return;
  const fs::path folder = flags.output;
  write_file(folder / "collectives.json", bench::collectives_json(times).dump(2) + "\n");
  write_file(folder / "collectives_fit.json",
             bench::fits_json(bench::fit_collectives(times)).dump(2) + "\n");
  write_file(folder / "collectives.svg",
             bench::collectives_svg(times, "Collectives by size and engine",
                                    lines.empty() ? "" : lines.front()));
  report::show_progress(
      fmt::format("wrote {0}/collectives.json, {0}/collectives_fit.json and {0}/collectives.svg\n",
                  folder.string()),
      stderr);
}

int bench_collectives(const CollectivesFlags& flags) {
  flags.check();
  report::LiveLine live(stderr);
  const auto say = [&](const std::string& text) { text.empty() ? live.wipe() : live.show(text); };
  const auto environment = launch::detect_environment();
  if (!environment.launched() || environment.world_size == 1) {
    const auto start = [](int ranks, const fs::path& times) {
      return launch_again(ranks, {"--results", times.string()});
    };
    show(flags, bench::time_host(flags, start, say));
    return 0;
  }
  const auto times = bench::time_ranks(flags, say);
  if (environment.rank != 0) return 0;
  if (flags.results.empty()) {
    show(flags, times);
  } else {
    write_file(flags.results, bench::collectives_json(times).dump());
  }
  return 0;
}

}  // namespace

void add_bench_collectives(CLI::App& app, RunCommand& run) {
  auto flags = std::make_shared<CollectivesFlags>();
  flags->collectives = comm::measurable_collectives();
  flags->engines = comm::engine_names(/*without_gpus=*/true);
  flags->engines.emplace_back("threads");
  auto* command = app.add_subcommand("collectives", "Time collectives between ranks");
  auto engines = comm::engine_names();
  engines.emplace_back("threads");
  command->add_option("--engines", flags->engines, join(engines))
      ->delimiter(',')
      ->check(CLI::IsMember(engines));
  command->add_option("--collectives", flags->collectives, join(comm::measurable_collectives()))
      ->delimiter(',')
      ->check([](const std::string& name) {
        const auto& known = comm::measurable_collectives();
        return std::find(known.begin(), known.end(), name) != known.end()
                   ? ""
                   : fmt::format("there is no collective '{}'; expected one of {}", name,
                                 join(known));
      });
  command->add_option("--dtypes", flags->dtypes, "fp32, fp16, bf16, int32, int64")->delimiter(',');
  command->add_option("--sizes", flags->sizes, "bytes, such as 1K,64K,16M")->delimiter(',');
  command->add_option("--ranks", flags->ranks, "numbers of ranks on this host")->delimiter(',');
  command->add_option("--device", flags->device, "cpu or cuda: device of the tensors")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--seconds", flags->seconds_per_cell, "seconds to spend on each measurement")
      ->check(above_zero());
  command->add_option("--output", flags->output,
                      "folder for collectives.json, collectives_fit.json and collectives.svg");
  command->add_flag("--json", flags->json, "print JSON");
  command->add_option("--results", flags->results)->group("");
  command->footer(
      "Prints time, bandwidth (bytes over time) and bus bandwidth (as NCCL's tests define it) for "
      "each size, engine and collective, and latency and bandwidth fitted to them. Tensors are in "
      "each rank's own memory; 'copy' is one rank that copies as many bytes.\n"
      "Under a launcher (convoy launch, torchrun, srun, mpirun) its ranks are measured.\n"
      "Examples:\n  convoy bench collectives\n"
      "  convoy bench collectives --engines shm --collectives all_reduce --dtypes fp32,bf16 "
      "--ranks 2,4 --output runs/collectives\n");
  command->callback([flags, &run] { run = [flags] { return bench_collectives(*flags); }; });
}

}  // namespace convoy::cli
