#include "convoy/base/options.h"
#include "convoy/formats/shard_size.h"
#include "convoy/optim/lr_schedule.h"
#include "convoy/optim/optimizer.h"
#include "convoy/train/setup/arguments.h"

// The options of [train] and [output].
namespace convoy::train {

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
        "rows of an optimizer step over all ranks: gradient_accumulation_steps follows from it, so "
        "that it holds on any number of ranks; none = what the others come to")
      .at_least(1);
  t.add(s, "auto_find_batch_size", auto_find_batch_size,
        "take the largest per_device_train_batch_size that is estimated to fit and makes the same "
        "step, with more gradient_accumulation_steps; the same on all ranks, which step down "
        "together where one has too little memory after all");
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
  t.add(s, "deepspeed", deepspeed,
        "DeepSpeed configuration (JSON) whose keys become options; auto in it leaves ours")
      .path()
      .once()
      .differs();
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
        "whether more of that metric is better; auto = unless it is a loss or rmse")
      .choice({"auto", "true", "false"});
  t.add(s, "early_stopping_patience", early_stopping_patience,
        "stop after this many evaluations in a row without a better one; 0 = never")
      .at_least(0);
  t.add(s, "early_stopping_threshold", early_stopping_threshold,
        "an evaluation counts as better only by more than this")
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
  t.add(s, "overwrite", overwrite, "replace a run that output.dir holds already")
      .alias("overwrite_output_dir")
      .once()
      .differs();
  t.add(s, "quiet", quiet, "print errors only").differs();
  t.add(s, "trace", trace,
        "write some steps as a Chrome trace to this file, for ui.perfetto.dev; other ranks add "
        ".rankN")
      .differs();
  t.add(s, "trace_steps", trace_steps, "steps to trace, after three of warm-up")
      .at_least(1)
      .only_with("output.trace")
      .differs();
  t.add(s, "events", events,
        "named pipe that each step, log line, evaluation and checkpoint goes to, as JSON lines")
      .once()
      .differs();
  t.add(s, "max_shard_size", max_shard_size,
        "larger weights are saved as several files of this size, such as 500MB or 2GiB");
}

}  // namespace convoy::train
