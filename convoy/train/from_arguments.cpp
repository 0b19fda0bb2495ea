#include "convoy/train/from_arguments.h"

#include "convoy/train/pipeline.h"

namespace convoy::train {

parallel::ReplicaOptions replica_options(const TrainingArguments& arguments, bool trains) {
  const auto& parallel = arguments.parallel;
  parallel::ReplicaOptions options;
  options.compute_dtype = arguments.bf16 ? at::kBFloat16 : arguments.fp16 ? at::kHalf : at::kFloat;
  options.num_micro_batches = arguments.gradient_accumulation_steps;
  options.bucket_bytes = parallel.bucket_cap_mb << 20;
  options.zero = static_cast<int>(parallel.zero);
  options.prefetch = parallel.prefetch;
  options.reshard_after_forward = parallel.reshard_after_forward;
  options.keep_bytes = parallel.zero_keep_mb << 20;
  options.reduce_each = parallel.zero_reduce == "each";
  options.pipeline = pipeline_options(parallel);
  options.seed = static_cast<uint64_t>(arguments.seed);
  options.trains = trains;
  options.recompute = trains && arguments.gradient_checkpointing;
  return options;
}

StreamOptions stream_options(const TrainingArguments& arguments, bool training) {
  StreamOptions options;
  options.layout.accumulation = training ? arguments.gradient_accumulation_steps : 1;
  options.layout.per_device_batch =
      training ? arguments.per_device_train_batch_size : arguments.per_device_eval_batch_size;
  options.seed = static_cast<uint64_t>(arguments.data_seed.value_or(arguments.seed));
  options.shuffle = training;
  options.drop_last = training && arguments.dataloader_drop_last;
  options.every_rank_needs_rows = training;
  return options;
}

}  // namespace convoy::train
