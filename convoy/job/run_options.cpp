#include "convoy/job/run_options.h"

#include "convoy/base/error.h"
#include "convoy/parallel/knobs.h"
#include "convoy/parallel/refuse.h"

namespace convoy::job {

namespace {

/// Throws UsageError where rows of a table cannot miss updates.
void check_missed_updates(const options::TrainingArguments& arguments,
                          const optim::Optimizer& optimizer) {
  if (optimizer.updates_until_idle() > 0) return;
  fail<UsageError>("train",
                   "row_tables = true needs an optimizer that comes to rest some updates after a "
                   "row's last gradient; got optim = {} with adam_beta1 = {}, adam_beta2 = {}; try "
                   "--optim {} with an adam_beta1 below the root of adam_beta2",
                   arguments.optim, arguments.adam_beta1, arguments.adam_beta2,
                   optim::kDefaultOptimizer);
}

}  // namespace

parallel::ReplicaOptions replica_options(const options::TrainingArguments& arguments, bool trains) {
  const auto& parallel = arguments.parallel;
  parallel::ReplicaOptions options;
  options.compute_dtype = arguments.bf16 ? at::kBFloat16 : arguments.fp16 ? at::kHalf : at::kFloat;
  options.parallelism = parallel.parallelism;
  options.parallelism.rows = arguments.per_device_train_batch_size;
  options.parallelism.micro_batches = arguments.gradient_accumulation_steps;
  options.parallelism.recompute = arguments.gradient_checkpointing;
  parallel::require(refuse(options.parallelism, {.trains = trains}));
  options.parallelism.offload = {};
  options.parallelism.recompute = trains && arguments.gradient_checkpointing;
  options.seed = static_cast<uint64_t>(arguments.seed);
  options.trains = trains;
  options.optimizer = optim::make_optimizer(
      arguments.optim, {arguments.adam_beta1, arguments.adam_beta2, arguments.adam_epsilon});
  if (options.parallelism.keeps_rows(options.facts().trains))
    check_missed_updates(arguments, *options.optimizer);
  return options;
}

parallel::ReplicaOptions any_split_options(options::TrainingArguments arguments) {
  auto& parallelism = arguments.parallel.parallelism;
  parallelism = parallel::undecided(parallelism);
  return replica_options(arguments, true);
}

data::StreamOptions stream_options(const options::TrainingArguments& arguments, bool training) {
  data::StreamOptions options;
  options.layout.accumulation = training ? arguments.gradient_accumulation_steps : 1;
  options.layout.per_device_batch =
      training ? arguments.per_device_train_batch_size : arguments.per_device_eval_batch_size;
  options.seed = static_cast<uint64_t>(arguments.data_seed.value_or(arguments.seed));
  options.shuffle = training;
  options.drop_last = training && arguments.dataloader_drop_last;
  options.every_rank_needs_rows = training;
  return options;
}

}  // namespace convoy::job
