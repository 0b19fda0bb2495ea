#include "convoy/options/arguments.h"

namespace convoy::options {

void TrainingArguments::add_hints(OptionTable& table) {
  // Names in Hugging Face's configs, in Lightning, on the street.
  static const std::vector<OptionHint> hints{
      {"train.num_train_epochs", true, {"epochs", "num_epochs", "n_epochs", "max_epochs"}},
      {"train.max_steps", true, {"steps", "num_steps", "max_train_steps", "iterations"}},
      {"train.per_device_train_batch_size",
       true,
       {"batch_size", "bs", "batch", "train_batch_size", "micro_batch_size"}},
      {"train.per_device_eval_batch_size", true, {"eval_batch_size", "test_batch_size"}},
      {"train.gradient_accumulation_steps",
       true,
       {"accumulation", "grad_accum", "accumulate_grad_batches", "accumulation_steps", "ga"}},
      {"train.optim", false, {"optimizer"}},
      {"train.learning_rate", true, {"lr", "eta", "rate"}},
      {"train.weight_decay", true, {"wd", "decay", "l2"}},
      {"train.adam_beta1", false, {"beta1", "b1"}},
      {"train.adam_beta2", false, {"beta2", "b2"}},
      {"train.adam_epsilon", false, {"eps", "epsilon", "adam_eps"}},
      {"train.max_grad_norm", true, {"clip", "grad_clip", "clip_norm", "gradient_clip_val"}},
      {"train.check_replicas_steps", false, {"check_weight_hash_across_dp_replicas_interval"}},
      {"train.lr_scheduler_type", true, {"scheduler", "lr_scheduler", "schedule", "sched"}},
      {"train.warmup_ratio", false, {"warmup_proportion"}},
      {"train.warmup_steps", true, {"warmup", "num_warmup_steps"}},
      {"train.bf16", true, {"bfloat16", "mixed_precision", "amp"}},
      {"train.fp16", false, {"half", "float16"}},
      {"train.seed", true, {"random_seed"}},
      {"train.logging_steps", true, {"log_steps", "log_every", "log_interval"}},
      {"train.eval_strategy", true, {"eval", "do_eval"}},
      {"train.eval_steps", true, {"eval_every", "eval_interval"}},
      {"train.save_steps", true, {"save_every", "save_interval", "checkpoint_every"}},
      {"train.save_total_limit", true, {"keep", "max_checkpoints", "keep_checkpoints"}},
      {"train.resume_from_checkpoint", true, {"resume", "checkpoint", "ckpt", "restore"}},
      {"train.load_best_model_at_end", true, {"best", "keep_best"}},
      {"train.metric_for_best_model", true, {"best_metric", "metric", "monitor"}},
      {"train.early_stopping_patience", true, {"patience", "early_stopping"}},
      {"parallel.strategy", true, {"distributed", "parallel", "mode"}},
      {"parallel.replicas", true, {"num_replicas"}},
      {"parallel.backend", false, {"dist_backend"}},
      {"parallel.tensor_parallel_size",
       false,
       {"tensor_model_parallel_size", "tensor_parallel_degree", "tensor_parallel", "tp",
        "autotp_size"}},
      {"parallel.sequence_parallel", false, {"sequence_parallelism", "enable_sequence_parallel"}},
      {"parallel.expert_parallel_size",
       false,
       {"expert_model_parallel_size", "expert_parallel_degree", "expert_parallel", "ep"}},
      {"parallel.context_parallel_size",
       false,
       {"context_parallel_degree", "context_parallel", "cp"}},
      {"parallel.threads", true, {"num_threads", "nthreads", "omp_num_threads"}},
      {"parallel.device", true, {"no_cuda", "use_cpu", "cuda", "gpu", "cpu"}},
      {"output.dir", true, {"output", "out", "out_dir", "save_dir", "o"}},
      {"output.overwrite", true, {"force"}},
      {"output.quiet", false, {"silent", "disable_tqdm"}},
      {"output.trace", false, {"profile", "profiler"}},
  };
  for (const auto& hint : hints) table.hint(hint);
}

}  // namespace convoy::options
