#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/bench.h"
#include "cli/commands.h"
#include "convoy/base/text.h"
#include "convoy/comm/measure.h"

namespace convoy::cli {

void add_bench(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("bench", "Measure training");
  command->require_subcommand(1);

  auto strategies = std::make_shared<StrategyBench>();
  auto* table = command->add_subcommand(
      "strategies", "Train the same job with each strategy and compare speed and quality");
  table->add_option("config", strategies->config, "TOML file of the run")->required();
  table
      ->add_option(
          "--strategies", strategies->strategies,
          "single, dp, ddp, zero1 to zero3, also zero3-hybrid and zero3-disk, gpipe, 1f1b, "
          "interleaved")
      ->delimiter(',');
  table->add_option("--ranks", strategies->ranks, "numbers of ranks for all but single")
      ->delimiter(',');
  table->add_option("--output", strategies->output,
                    "folder for strategies.json, strategies.md, strategies.svg and the runs");
  table->add_flag("--per-device,--per_device", strategies->per_device,
                  "keep the batch per device, and run ddp over a slow link too: the experiment of "
                  "Hugging Face's guide to several GPUs");
  table->footer(
      "The total batch and the number of steps are the same for all; each training is a "
      "fresh process with one thread per rank unless --threads says otherwise.\n"
      "With --per-device each device keeps the batch of the run, so more devices see more samples "
      "in as many steps.\n"
      "Example:\n  convoy bench strategies run.toml --strategies single,dp,ddp --ranks 2 "
      "--output runs/compare\n");
  table->callback(
      [strategies, &run] { run = [strategies] { return bench_strategies(*strategies); }; });

  auto step = std::make_shared<StepBench>();
  auto* timing = command->add_subcommand("step", "Time steady training steps");
  timing->add_option("config", step->config, "TOML file of the run")->required();
  timing->add_option("--steps", step->steps, "steps to time");
  timing->add_option("--warmup", step->warmup, "steps before that");
  timing->add_option("--nproc", step->nproc, "ranks on this host");
  timing->add_flag("--json", step->json, "print JSON");
  timing->footer(
      "Example:\n  convoy bench step run.toml --steps 50 --nproc 2 --threads 1 --json\n");
  auto save = std::make_shared<SaveBench>();
  auto* saving = command->add_subcommand("save", "Time checkpoints: writing, reading, training on");
  saving->add_option("config", save->config, "TOML file of the run")->required();
  saving->add_option("--folder", save->folder, "where to write [.]");
  saving->add_option("--rounds", save->rounds, "times to write and read [3]")->check(at_least(1));
  saving->add_option("--saves", save->saves, "checkpoints beside the training [2]")
      ->check(at_least(1));
  saving->add_option("--save-steps", save->save_steps, "steps from one to the next [12]")
      ->check(CLI::Range(4, 1000000));
  saving->add_option("--nproc", save->nproc, "ranks on this host");
  saving->add_flag("--json", save->json, "print JSON");
  saving->footer(
      "Writes and reads weights and moments, synced and from the disk, beside as many bytes in "
      "large blocks; then trains with checkpoints in the background and tells how long one holds "
      "the training up, and how much longer steps take meanwhile.\n"
      "Example:\n  convoy bench save run.toml --folder runs --nproc 2 --zero 2 --threads 1\n");
  saving->callback([save, &run] { run = [save] { return bench_save(*save); }; });
  auto loader = std::make_shared<LoaderBench>();
  auto* loading = command->add_subcommand("loader", "Read the training data without training");
  loading->add_option("config", loader->config, "TOML file of the run")->required();
  loading->add_option("--epochs", loader->epochs, "times to read all of it [3]");
  loading->add_flag("--json", loader->json, "print JSON");
  loading->footer(
      "Rows per second that one rank's loader delivers as padded batches: compare with the "
      "samples/s "
      "of convoy bench step.\n"
      "Example:\n  convoy bench loader run.toml --data.memory_budget_mb 1 --data.shuffle_window "
      "1024\n");
  auto collectives = std::make_shared<CollectivesBench>();
  collectives->collectives = comm::measurable_collectives();
  auto* talking = command->add_subcommand("collectives", "Time what ranks say to each other");
  talking->add_option("--engines", collectives->engines, "shm, gloo, threads, nccl")
      ->delimiter(',')
      ->check(CLI::IsMember({"shm", "gloo", "threads", "nccl"}));
  talking
      ->add_option("--collectives", collectives->collectives, join(comm::measurable_collectives()))
      ->delimiter(',')
      ->check([](const std::string& name) {
        const auto& known = comm::measurable_collectives();
        return std::find(known.begin(), known.end(), name) != known.end()
                   ? ""
                   : fmt::format("there is no collective '{}'; expected one of {}", name,
                                 join(known));
      });
  talking->add_option("--dtypes", collectives->dtypes, "fp32, fp16, bf16, int32, int64")
      ->delimiter(',');
  talking->add_option("--sizes", collectives->sizes, "bytes, such as 1K,64K,16M")->delimiter(',');
  talking->add_option("--ranks", collectives->ranks, "numbers of ranks on this host")
      ->delimiter(',');
  talking->add_option("--device", collectives->device, "cpu, cuda: where the tensors lie");
  talking->add_option("--seconds", collectives->seconds_per_cell, "to spend on each number");
  talking->add_option("--output", collectives->output,
                      "folder for collectives.json, collectives_fit.json and collectives.svg");
  talking->add_flag("--json", collectives->json, "print JSON");
  talking->add_option("--results", collectives->results)->group("");
  talking->footer(
      "Prints time, bandwidth (bytes over time) and bus bandwidth (as NCCL's tests define it) for "
      "each size, engine and collective, and latency and bandwidth fitted to them. Tensors lie in "
      "memory of each rank's own; 'copy' is one rank alone that copies as many bytes.\n"
      "Under a launcher (convoy launch, torchrun, srun, mpirun) its ranks are measured.\n"
      "Examples:\n  convoy bench collectives\n"
      "  convoy bench collectives --engines shm --collectives all_reduce --dtypes fp32,bf16 "
      "--ranks 2,4 --output runs/collectives\n");
  talking->callback(
      [collectives, &run] { run = [collectives] { return bench_collectives(*collectives); }; });
  loading->callback([loader, &run] { run = [loader] { return bench_loader(*loader); }; });
  timing->callback([step, &run] { run = [step] { return bench_step(*step); }; });
}

}  // namespace convoy::cli
