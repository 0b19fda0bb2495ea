#include "convoy/base/options.h"
#include "convoy/formats/shard_size.h"
#include "convoy/optim/lr_schedule.h"
#include "convoy/optim/optimizer.h"
#include "convoy/options/arguments.h"

// The options of [train] and [output].
namespace convoy::options {

namespace {

const std::vector<std::string> kWhen{"no", "steps", "epoch"};

// AdamW divides by 1 - beta^t and by epsilon plus a root that may be 0, in fp32.
constexpr double kBelowOne = 0.99999999;
constexpr double kAboveZero = 1e-37;

}  // namespace

OutputArguments::OutputArguments() : max_shard_size(formats::kMaxShardSize) {}

void TrainingArguments::declare(OptionTable& t) {
  const char* const s = "train";
  t.add(s, "num_train_epochs", num_train_epochs, "passes over the training data").at_least(0);
  t.add(s, "max_steps", max_steps, "optimizer steps; 0 or -1 = by num_train_epochs").at_least(-1);
  t.add(s, "stop_steps", stop_steps,
        "end after so many of these steps, with the learning rates of the whole training: a later "
        "start resumes it; below 1: fraction of all steps; 0 = train to the end")
      .at_least(0);
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
  t.add(s, "global_batch_size", global_batch_size,
        "rows per optimizer step over all ranks: gradient_accumulation_steps is derived from it, "
        "for any number of ranks; none = given by the other batch options")
      .at_least(1);
  t.add(s, "auto_find_batch_size", auto_find_batch_size,
        "use the largest per_device_train_batch_size that is estimated to fit, and raise "
        "gradient_accumulation_steps to keep the total batch; the same on all ranks, which reduce "
        "it together if one still runs out of memory");
  t.add(s, "gradient_checkpointing", gradient_checkpointing,
        "keep only the inputs of blocks and recompute the rest in backward: less memory, more "
        "time, the same numbers");
  t.add(s, "optim", optim, "the optimizer: " + optim::optimizer_help())
      .choice(optim::optimizer_names());
  t.add(s, "learning_rate", learning_rate, "peak learning rate").at_least(0);
  t.add(s, "weight_decay", weight_decay, "weight decay of all but biases and normalisation weights")
      .at_least(0);
  t.add(s, "adam_beta1", adam_beta1, "beta1 of the optimizer").within(0, kBelowOne);
  t.add(s, "adam_beta2", adam_beta2, "beta2 of the optimizer").within(0, kBelowOne);
  t.add(s, "adam_epsilon", adam_epsilon, "epsilon that the optimizer adds to its denominator")
      .at_least(kAboveZero)
      .only_with("optim", optim::optimizers_with_epsilon());
  t.add(s, "max_grad_norm", max_grad_norm, "clip the gradient to this norm; 0 = never").at_least(0);
  t.add(s, "check_replicas_steps", check_replicas_steps,
        "every N steps check that ranks with the same state have identical bits; 0 = never")
      .at_least(0);
  t.add(s, "sum_steps", sum_steps,
        "every N steps log a checksum of each weight, by which convoy compare finds where two runs "
        "part; 0 = at saves, at evaluations and at the end")
      .at_least(0);
  t.add(s, "lr_scheduler_type", lr_scheduler_type, "learning rate schedule")
      .choice(optim::lr_schedule_types());
  t.add(s, "lr_scheduler_kwargs", lr_scheduler_kwargs,
        "settings of the schedule as JSON, such as {\"num_decay_steps\": 100} of "
        "warmup_stable_decay or {\"min_lr_rate\": 0.1} of cosine_with_min_lr");
  t.add(s, "warmup_ratio", warmup_ratio, "fraction of the steps used for warm-up").within(0, 1);
  t.add(s, "warmup_steps", warmup_steps, "warm-up steps; overrides warmup_ratio").at_least(0);
  t.add(s, "bf16", bf16, "compute in bfloat16 with fp32 master weights (also on CPU)");
  t.add(s, "fp16", fp16,
        "compute in half precision with fp32 master weights and a dynamic loss scale");
  t.add(s, "tf32", tf32, "train with fp32 matrix products in TF32, on GPUs from Ampere on");
  t.add(s, "deterministic", deterministic,
        "make runs on GPUs bitwise reproducible, too, at some cost; runs on the CPU always are");
  t.add(s, "seed", seed, "seed of weights, dropout and data order").at_least(0);
  t.add(s, "data_seed", data_seed, "seed of the data order; none = seed").at_least(0);
  t.add(s, "dataloader_drop_last", dataloader_drop_last, "drop an incomplete last batch");
  t.add(s, "logging_strategy", logging_strategy, "when to log").choice(kWhen).differs();
  t.add(s, "logging_steps", logging_steps, "log every N steps; below 1: fraction of all steps")
      .at_least(1e-9);
  t.add(s, "logging_first_step", logging_first_step, "log the first step as well").differs();
  t.add(s, "eval_strategy", eval_strategy, "when to evaluate")
      .choice(kWhen)
      .alias("evaluation_strategy");
  t.add(s, "eval_steps", eval_steps,
        "evaluate every N steps; below 1: fraction of all steps; none = logging_steps")
      .at_least(1e-9);
  t.add(s, "eval_on_start", eval_on_start, "evaluate before the first step");
  t.add(s, "save_strategy", save_strategy, "when to save a checkpoint").choice(kWhen);
  t.add(s, "save_steps", save_steps, "save every N steps; below 1: fraction of all steps")
      .at_least(1e-9);
  t.add(s, "save_total_limit", save_total_limit, "checkpoints to keep; none = all").at_least(1);
  t.add(s, "save_async", save_async,
        "write checkpoints in the background, from a copy of what each rank owns");
  t.add(
       s, "disk_full_wait", disk_full_wait,
       "seconds that all ranks wait for space where the disk is full and cannot take a checkpoint, "
       "after the first; 0 = none: the run ends")
      .at_least(0);
  t.add(s, "memory_copy_steps", memory_copy_steps,
        "every N steps copy the state to memory that convoy launch --max-restarts keeps, from "
        "which a restart goes on; 0 = never; none = every 10 steps on CPUs, for at most 1 % of the "
        "time, "
        "where two copies take at most a quarter of the memory that is free")
      .at_least(0);
  t.add(s, "resume_from_checkpoint", resume_from_checkpoint,
        "folder of a checkpoint, or 'latest' for the newest in output.dir")
      .once()
      .differs(/*if_given=*/true);
  t.add(s, "deepspeed", deepspeed,
        "DeepSpeed configuration (JSON) whose keys become options; auto in it keeps convoy's value")
      .path()
      .once()
      .differs();
  t.add(s, "report_to", report_to, "where else to log").choice({"none", "tensorboard"}).differs();
  t.add(s, "logging_dir", logging_dir,
        "folder for TensorBoard's event files; none = runs/ in output.dir")
      .only_with("report_to", {"tensorboard"})
      .differs();
  t.add(s, "load_best_model_at_end", load_best_model_at_end,
        "load the weights of the best evaluation at the end; each better one is saved");
  t.add(s, "metric_for_best_model", metric_for_best_model,
        "metric that decides which is best, without eval_; none = loss");
  t.add(s, "greater_is_better", greater_is_better,
        "whether higher is better for that metric; auto = its name or its scorer tells")
      .choice({"auto", "true", "false"});
  t.add(s, "early_stopping_patience", early_stopping_patience,
        "stop after this many evaluations in a row without improvement; 0 = never")
      .at_least(0);
  t.add(s, "early_stopping_threshold", early_stopping_threshold,
        "improvements up to this do not count for early_stopping_patience")
      .at_least(0);
  parallel.declare(t);
  output.declare(t);
  add_hints(t);
}

void OutputArguments::declare(OptionTable& t) {
  const char* const s = "output";
  t.add(s, "dir", dir, "folder of the run: checkpoints, model, results")
      .alias("output_dir")
      .differs(/*if_given=*/true);
  t.add(s, "overwrite", overwrite, "replace an existing run in output.dir")
      .alias("overwrite_output_dir")
      .once()
      .differs();
  t.add(s, "quiet", quiet, "print errors only").differs();
  t.add(s, "trace", trace,
        "write a Chrome trace of some steps to this file, for ui.perfetto.dev; other ranks append "
        ".rankN")
      .differs();
  t.add(s, "trace_steps", trace_steps, "steps to trace, after three warm-up steps")
      .at_least(1)
      .only_with("output.trace")
      .differs();
  t.add(s, "events", events,
        "named pipe that gets each step, log line, evaluation and checkpoint, as JSON lines")
      .once()
      .differs();
  t.add(s, "metrics_file", metrics_file,
        "file for Prometheus (node_exporter's textfile collector: *.prom), written anew with each "
        "log line, evaluation and checkpoint")
      .differs();
  t.add(s, "metrics_port", metrics_port,
        "port at which rank 0 answers Prometheus' GET /metrics while it trains; 0 = none")
      .within(0, 65535)
      .differs();
  t.add(s, "max_shard_size", max_shard_size,
        "split larger weights into several files of this size, such as 500MB or 2GiB");
}

}  // namespace convoy::options
