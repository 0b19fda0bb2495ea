#include "convoy/train/setup/arguments.h"

#include <fmt/ranges.h>

#include <functional>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/connect.h"
#include "convoy/formats/shard_size.h"
#include "convoy/launch/environment.h"
#include "convoy/optim/lr_schedule.h"
#include "convoy/optim/optimizer.h"
#include "convoy/schedule/pipeline/pipeline.h"
#include "convoy/train/checkpoints/run_files.h"
#include "convoy/train/setup/option_texts.h"

namespace convoy::train {

namespace {

/// Calls `use` with the options that have these values.
void with_table(const TrainingArguments& arguments,
                const std::function<void(const OptionTable&)>& use) {
  TrainingArguments values;
  OptionTable table;
  values.declare(table);
  values = arguments;
  use(table);
}

}  // namespace

namespace {

const std::vector<std::string> kWhen{"no", "steps", "epoch"};

// AdamW divides by 1 - beta^t and by epsilon plus a root that may be 0, in fp32.
constexpr double kBelowOne = 0.99999999;
constexpr double kAboveZero = 1e-37;

std::vector<std::pair<std::string, schedule::PipelineSchedule>> schedules() {
  std::vector<std::pair<std::string, schedule::PipelineSchedule>> out;
  for (const auto& entry : schedule::pipeline_schedules()) {
    out.emplace_back(entry.name, entry.schedule);
  }
  return out;
}

std::vector<std::pair<std::string, std::optional<schedule::Placement>>> placements() {
  using schedule::Placement;
  return {{"auto", std::nullopt},
          {name_of(Placement::Loop), Placement::Loop},
          {name_of(Placement::V), Placement::V}};
}

std::vector<std::string> or_auto(std::vector<std::string> names) {
  names.insert(names.begin(), "auto");
  return names;
}

}  // namespace

std::vector<std::pair<std::string, schedule::Place>> offload_places() {
  using schedule::Place;
  return {{"none", Place::Device}, {"cpu", Place::Cpu}, {"disk", Place::Disk}};
}

OutputArguments::OutputArguments() : max_shard_size(formats::kMaxShardSize) {}

void TrainingArguments::declare(OptionTable& t) {
  const char* s = "train";
  t.add(s, "num_train_epochs", num_train_epochs, "passes over the training data").at_least(0);
  t.add(s, "max_steps", max_steps, "optimizer steps; 0 or -1 = by num_train_epochs").at_least(-1);
  t.add(s, "per_device_train_batch_size", per_device_train_batch_size,
        "rows per device and micro-batch")
      .at_least(1)
      .alias("per_gpu_train_batch_size");
  t.add(s, "per_device_eval_batch_size", per_device_eval_batch_size,
        "rows per device in evaluation and prediction")
      .at_least(1)
      .alias("per_gpu_eval_batch_size");
  t.add(s, "gradient_accumulation_steps", gradient_accumulation_steps,
        "micro-batches per optimizer step")
      .at_least(1);
  t.add(s, "gradient_checkpointing", gradient_checkpointing,
        "keep the inputs of blocks only and compute the rest again for backward: less memory, more "
        "time, the same numbers");
  t.add(s, "optim", optim, "the optimizer: " + optim::optimizer_help())
      .choice(optim::optimizer_names());
  t.add(s, "learning_rate", learning_rate, "peak learning rate").at_least(0);
  t.add(s, "weight_decay", weight_decay, "decay of all but biases and normalisation weights")
      .at_least(0);
  t.add(s, "adam_beta1", adam_beta1, "the optimizer's first decay rate").within(0, kBelowOne);
  t.add(s, "adam_beta2", adam_beta2, "the optimizer's second decay rate").within(0, kBelowOne);
  t.add(s, "adam_epsilon", adam_epsilon, "what the optimizer adds to a root that it divides by")
      .at_least(kAboveZero)
      .only_with("optim", optim::optimizers_with_epsilon());
  t.add(s, "max_grad_norm", max_grad_norm, "clip the gradient to this norm; 0 = never").at_least(0);
  t.add(s, "check_replicas_steps", check_replicas_steps,
        "every so many steps look whether ranks that keep the same state have the same bits of it; "
        "0 = never")
      .at_least(0);
  t.add(s, "lr_scheduler_type", lr_scheduler_type, "how the learning rate changes")
      .choice(optim::lr_schedule_types());
  t.add(s, "warmup_ratio", warmup_ratio, "part of the steps in which the rate rises").within(0, 1);
  t.add(s, "warmup_steps", warmup_steps, "steps in which the rate rises; wins over warmup_ratio")
      .at_least(0);
  t.add(s, "bf16", bf16, "compute in bfloat16 with fp32 master weights (also on CPU)");
  t.add(s, "fp16", fp16,
        "compute in half precision with fp32 master weights and a dynamic loss scale");
  t.add(s, "tf32", tf32, "train with fp32 products rounded to TF32, on GPUs from Ampere on");
  t.add(s, "deterministic", deterministic,
        "the same bits in every run on GPUs too, at some cost; on the CPU it is always so");
  t.add(s, "seed", seed, "seed of weights, dropout and data order").at_least(0);
  t.add(s, "data_seed", data_seed, "seed of the data order; none = seed").at_least(0);
  t.add(s, "dataloader_drop_last", dataloader_drop_last, "leave out a last batch that is short");
  t.add(s, "logging_strategy", logging_strategy, "when to log").choice(kWhen).differs();
  t.add(s, "logging_steps", logging_steps, "log every N steps; below 1: part of all steps")
      .at_least(1e-9);
  t.add(s, "logging_first_step", logging_first_step, "log the first step as well").differs();
  t.add(s, "eval_strategy", eval_strategy, "when to evaluate")
      .choice(kWhen)
      .alias("evaluation_strategy");
  t.add(s, "eval_steps", eval_steps,
        "evaluate every N steps; below 1: part of all steps; none = "
        "logging_steps")
      .at_least(1e-9);
  t.add(s, "eval_on_start", eval_on_start, "evaluate before the first step");
  t.add(s, "save_strategy", save_strategy, "when to save a checkpoint").choice(kWhen);
  t.add(s, "save_steps", save_steps, "save every N steps; below 1: part of all steps")
      .at_least(1e-9);
  t.add(s, "save_total_limit", save_total_limit, "checkpoints to keep; none = all").at_least(1);
  t.add(s, "save_async", save_async,
        "write checkpoints beside the training, from a copy of what each rank owns");
  t.add(s, "resume_from_checkpoint", resume_from_checkpoint,
        "folder of a checkpoint, or 'latest' for the newest in output.dir")
      .once()
      .differs(/*if_given=*/true);
  t.add(s, "report_to", report_to, "who else gets the log")
      .choice({"none", "tensorboard"})
      .differs();
  t.add(s, "logging_dir", logging_dir, "folder of TensorBoard's events; none = runs/ in output.dir")
      .only_with("report_to", {"tensorboard"})
      .differs();
  t.add(s, "load_best_model_at_end", load_best_model_at_end,
        "end with the weights of the best evaluation; each better one is saved");
  t.add(s, "metric_for_best_model", metric_for_best_model,
        "metric that decides, by its name without eval_; none = loss");
  t.add(s, "greater_is_better", greater_is_better,
        "whether more of that metric is better; auto = unless it is a loss")
      .choice({"auto", "true", "false"});
  t.add(s, "early_stopping_patience", early_stopping_patience,
        "stop after this many evaluations in a row without a better one; 0 = never")
      .at_least(0);
  t.add(s, "early_stopping_threshold", early_stopping_threshold,
        "an evaluation counts as better only by more than this")
      .at_least(0);

  s = "parallel";
  t.add(s, "strategy", parallel.strategy,
        "auto, one device, DataParallel, or "
        "DistributedDataParallel")
      .choice({"auto", "single", "dp", "ddp"})
      .differs();
  t.add(s, "replicas", parallel.replicas,
        "DataParallel replicas, or those of each stage where stages are threads, which may share a "
        "GPU; 0 = as many as there are GPUs for, or with strategy dp two on the CPU")
      .within(0, 1024)
      .differs();
  t.add(s, "dp_batch", parallel.dp_batch,
        "batch size options count rows per device, or in total over DataParallel's devices")
      .choice({"per_device", "total"})
      .differs();
  t.add(s, "backend", parallel.backend,
        "what carries collectives between processes: auto is nccl for GPUs, shared memory inside a "
        "host and Gloo between hosts")
      .choice(or_auto(comm::engine_names()))
      .alias("ddp_backend");
  t.add(
       s, "pipeline_parallel_size", parallel.pipeline_parallel_size,
       "stages of a pipeline, a rank each, that hold the model's blocks together; what is left of "
       "the ranks shares out the data. gradient_accumulation_steps is the number of micro-batches. "
       "Without a launcher and --nproc the stages are threads of one process")
      .within(1, 1024)
      .alias("pp_size");
  t.add(s, "pipeline_schedule", parallel.pipeline.schedule, schedules(),
        "one micro-batch at a time; all forwards before all backwards; one of each in turns (keeps "
        "fewer micro-batches); that with several virtual stages a rank (a smaller bubble); with "
        "backwards in two halves that fill the gaps; or what a simulation finds to be fastest");
  t.add(s, "pipeline_virtual_stages", parallel.pipeline.virtual_stages,
        "virtual stages that each rank holds where the schedule has several; with auto at most")
      .within(1, 64);
  t.add(s, "pipeline_placement", parallel.pipeline.placement, placements(),
        "which virtual stages a rank holds: s, s + P and so on (loop), or of two the s-th and the "
        "s-th last (v), so that the first rank begins and ends; default: the faster one");
  t.add(s, "pipeline_splits", block_numbers(parallel.pipeline.splits),
        "numbers of the blocks with which (virtual) stages begin, but the first: 4,8; "
        "default: so that the dearest costs least");
  t.add(
      s, "pipeline_memory", memory_size("pipeline_memory", parallel.pipeline.memory),
      "what a stage may keep for backward, such as 4GiB: pipeline_schedule = auto finds a schedule "
      "within it, another must fit; default: with auto as much as 1f1b keeps");
  t.add(
       s, "pipeline_schedule_file", parallel.pipeline.file,
       "a schedule to follow instead, as CSV of torch.distributed.pipelining (0F0, 1I0, 1W0, 1B0), "
       "a line a rank; rank 0 reads it")
      .path()
      .differs(/*if_given=*/true);
  t.add(s, "pipeline_costs", parallel.pipeline_costs,
        "JSON of what each block costs, by its name: forward, backward, weight (seconds), kept, "
        "put_off (bytes); default: it is counted; rank 0 reads it")
      .path()
      .differs(/*if_given=*/true);
  t.add(s, "recompute_layers", layers_to_recompute(parallel.recomputed),
        "blocks that keep their inputs only and run again before their backward: a number, one for "
        "each stage (2,1,1,0), or auto: the fewest that fit into pipeline_memory");
  t.add(s, "tensor_parallel_size", parallel.tensor_parallel_size,
        "ranks that share out the weights of each layer (heads, inner units, ids) and compute the "
        "same "
        "rows together; for neighbours on one host")
      .within(1, 1024)
      .alias("tp_size");
  t.add(s, "threads", parallel.threads,
        "threads per rank inside operations; 0 = OMP_NUM_THREADS "
        "or the cores shared out")
      .within(0, 1024)
      .differs();
  t.add_mib(s, "bucket_cap_mb", parallel.bucket_bytes,
            "gradients are summed in pieces of this size")
      .at_least(0)
      .alias("ddp_bucket_cap_mb");
  t.add(s, "zero", parallel.zero,
        "stage of ZeRO: each rank keeps only its shard of the optimizer's state (1), of gradients "
        "too (2), of weights too (3)")
      .within(0, 3)
      .alias("zero_stage");
  t.add(s, "prefetch", parallel.prefetch,
        "pieces of bucket_cap_mb that zero = 3 gathers ahead of their use")
      .within(0, 64)
      .only_with("zero", {"3"});
  t.add(s, "reshard_after_forward", parallel.reshard_after_forward,
        "zero = 3 drops gathered weights after forward and gathers them again for backward")
      .only_with("zero", {"3"});
  t.add_mib(s, "zero_keep_mb", parallel.keep_bytes,
            "zero = 3 keeps the weights of pieces below this size whole: they are gathered once, "
            "after their update")
      .within(0, 1 << 20)
      .only_with("zero", {"3"});
  t.add(s, "zero_reduce", parallel.reduce_each, {{"each", true}, {"last", false}},
        "zero = 2 and 3 sum gradients over the ranks after each micro-batch, or keep whole ones "
        "until the last")
      .only_with("zero", {"2", "3"});
  t.add(s, "shard_ranks", parallel.shard_ranks,
        "ranks that keep one state replica together: all, host, or a number; between the "
        "replicas gradients are summed")
      .only_with("zero", {"1", "2", "3"});
  t.add(s, "offload_optimizer", parallel.offload.optimizer, offload_places(),
        "where the optimizer's states and the masters of 16-bit weights lie: with the rest, in a "
        "GPU's host memory, or on the disk; a bucket of them is in memory at a time");
  t.add(s, "offload_gradients", parallel.offload.gradients, offload_places(),
        "the same for the shards of gradients; needs zero = 2 or 3");
  t.add(s, "offload_parameters", parallel.offload.parameters, offload_places(),
        "the same for the shards of weights; needs zero = 3");
  t.add(s, "offload_dir",
        {[this] { return parallel.offload.folder.string(); },
         [this](const std::string& text) { parallel.offload.folder = text; }},
        "folder on a disk of each host for what is offloaded to the disk; nothing stays there")
      .differs();
  t.add(s, "timeout", parallel.timeout,
        "seconds after which ranks that do not meet, or a collective, give up")
      .at_least(1)
      .alias("ddp_timeout")
      .differs();
  t.add(s, "device", parallel.device, "where to compute").choice({"auto", "cpu", "cuda"}).differs();

  s = "output";
  t.add(s, "dir", output.dir, "folder of the run: checkpoints, model, results")
      .alias("output_dir")
      .differs(/*if_given=*/true);
  t.add(s, "overwrite", output.overwrite, "replace a run that output.dir holds already")
      .alias("overwrite_output_dir")
      .once()
      .differs();
  t.add(s, "quiet", output.quiet, "print errors only").differs();
  t.add(s, "trace", output.trace,
        "write some steps as a Chrome trace to this file, for ui.perfetto.dev; other ranks add "
        ".rankN")
      .differs();
  t.add(s, "trace_steps", output.trace_steps, "steps to trace, after three of warm-up")
      .at_least(1)
      .only_with("output.trace")
      .differs();
  t.add(s, "max_shard_size", output.max_shard_size,
        "larger weights are saved as several files of this size, such as 500MB or 2GiB");
  add_hints(t);
}

std::optional<std::string> TrainingArguments::read_command_line(int argc, char** argv) {
  OptionTable table;
  declare(table);
  const auto rest = table.take_overrides({argv + 1, argv + argc});
  for (const auto& word : rest) {
    if (word == "--help" || word == "-h") return table.help_text();
    if (word.rfind("--", 0) == 0) table.set(word.substr(2), "", "the command line");
    fail<UsageError>("config", "unexpected argument '{}'; --help lists the options", word);
  }
  table.check();
  check_effect();
  return std::nullopt;
}

void TrainingArguments::check_effect() const {
  if (parallel.dp_batch != "total") return;
  auto strategy = parallel.strategy;
  if (strategy == "auto" && launch::detect_environment().world_size > 1) strategy = "ddp";
  if (strategy == "single" || strategy == "ddp") {
    fail<UsageError>("config",
                     "parallel.dp_batch = total has no effect with parallel.strategy = {}; try "
                     "--strategy dp, or --dp_batch per_device",
                     strategy);
  }
}

std::vector<std::string> TrainingArguments::shared_options() const {
  std::vector<std::string> out;
  with_table(*this, [&](const OptionTable& table) {
    for (const auto& option : table.options()) {
      if (auto text = option.shared(); !text.empty()) out.push_back(std::move(text));
    }
  });
  out.insert(out.end(), parallel.task_options.begin(), parallel.task_options.end());
  return out;
}

std::vector<std::string> ParallelArguments::shared_options() const {
  TrainingArguments arguments;
  arguments.parallel = *this;
  return arguments.shared_options();
}

void ParallelArguments::share(const OptionTable& table) {
  if (const auto* chosen = table.find("train.optim"); chosen != nullptr) {
    state_bytes = optim::make_optimizer(chosen->plain())->state_bytes();
  }
  task_options.clear();
  with_table(TrainingArguments(), [&](const OptionTable& own) {
    for (const auto& option : table.options()) {
      if (own.find(option.key()) != nullptr) continue;
      if (auto text = option.shared(); !text.empty()) task_options.push_back(std::move(text));
    }
  });
}

void TrainingArguments::check(bool trains, bool evaluates) const {
  with_table(*this, [](const OptionTable& table) { table.check(); });
  formats::shard_bytes(output.max_shard_size);
  if (bf16 && fp16) fail<UsageError>("train", "bf16 and fp16 are both on; expected one of them");
  if (!trains) return;
  if (report_to == "tensorboard") events_folder();
  if (!evaluates && eval_strategy != "no") {
    fail<UsageError>("train",
                     "eval_strategy = {} needs evaluation data; got none; try --data.valid FILE",
                     eval_strategy);
  }
  if ((load_best_model_at_end || early_stopping_patience > 0) && eval_strategy == "no") {
    fail<UsageError>("train", "{} needs evaluations; try --eval_strategy epoch",
                     load_best_model_at_end ? "load_best_model_at_end" : "early_stopping_patience");
  }
  if (load_best_model_at_end && output.dir.empty()) {
    fail<UsageError>("train", "load_best_model_at_end keeps checkpoints; try --output_dir DIR");
  }
}

std::vector<std::string> TrainingArguments::warnings(int64_t max_steps) const {
  std::vector<std::string> out;
  const TrainingArguments usual;
  auto unused = [&](const char* name, const std::string& strategy, const std::string& steps) {
    if (strategy == "steps") return;
    out.push_back(
        fmt::format("{0}_steps = {1} has no effect with {0}_strategy = {2}; try "
                    "--{0}_strategy steps",
                    name, steps, strategy));
  };
  if (eval_steps) unused("eval", eval_strategy, fmt::format("{}", *eval_steps));
  if (save_steps != usual.save_steps) {
    unused("save", save_strategy, fmt::format("{}", save_steps));
  }
  if (logging_steps != usual.logging_steps) {
    unused("logging", logging_strategy, fmt::format("{}", logging_steps));
  }
  if (warmup_steps >= max_steps && warmup_steps > 0) {
    out.push_back(fmt::format(
        "warmup_steps = {} reaches to the end of the run's {} steps, so the learning rate never "
        "comes to {}; try fewer, or --warmup_ratio 0.1",
        warmup_steps, max_steps, learning_rate));
  }
  return out;
}

std::filesystem::path TrainingArguments::events_folder() const {
  if (!logging_dir.empty()) return logging_dir;
  if (!output.dir.empty()) return std::filesystem::path(output.dir) / kEvents;
  fail<UsageError>(
      "train", "report_to = tensorboard needs a folder; try --logging_dir DIR or --output_dir DIR");
}

}  // namespace convoy::train
