#include "convoy/train/setup/from_arguments.h"

#include <fmt/ranges.h>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/nn/declare.h"
#include "convoy/profile/trace.h"
#include "convoy/schedule/pipeline/cut.h"
#include "convoy/schedule/pipeline/pipeline.h"

namespace convoy::train {

namespace {

/// Throws UsageError for what has no effect without stages.
void check_effect_of_pipeline(const ParallelArguments& arguments) {
  const ParallelArguments usual;
  const auto& [schedule, virtual_stages, splits, placement] = arguments.pipeline;
  if (arguments.pipeline_parallel_size > 1) return;
  std::string asked;
  if (placement) asked = fmt::format("pipeline_placement = {}", schedule::name_of(*placement));
  if (schedule != usual.pipeline.schedule) {
    asked = fmt::format("pipeline_schedule = {}", schedule::name_of(schedule));
  }
  if (!splits.empty()) asked = fmt::format("pipeline_splits = {}", fmt::join(splits, ","));
  if (asked.empty()) return;
  fail<UsageError>("parallel",
                   "{} has no effect without a pipeline; try --pipeline_parallel_size 2", asked);
}

}  // namespace

parallel::MicroBatch first_batch(const TrainingArguments& arguments, const Dataset& data,
                                 int num_ranks) {
  auto options = stream_options(arguments, true);
  options.layout.world = num_ranks;
  const auto stream = data.open(options);
  stream->start(0, 0);
  auto batch = stream->next();
  return batch ? std::move(batch->micro_batches.at(0)) : parallel::MicroBatch();
}

std::vector<schedule::Products> products_of(const parallel::ModelFactory& factory,
                                            const TrainingArguments& arguments,
                                            const Dataset& data) {
  if (arguments.parallel.pipeline_parallel_size == 1) return {};
  const auto blocks = factory();
  if (nn::declare(blocks).has_modules()) return {};
  const auto batch = first_batch(arguments, data, 1);
  if (batch.empty()) return {};
  const auto replica = replica_options(arguments, true);
  return profile::trace(blocks, batch, {replica.compute_dtype, replica.seed});
}

std::string stages_text(const schedule::Layout& layout) {
  std::vector<std::string> stages;
  for (size_t stage = 0; stage < layout.options().stages.size(); ++stage) {
    std::vector<std::string> stretches;
    for (const auto& [first, last] : layout.virtual_stages(static_cast<int>(stage))) {
      stretches.push_back(first == last ? std::to_string(first)
                                        : fmt::format("{}-{}", first, last));
    }
    stages.push_back(join(stretches, ", "));
  }
  return join(stages, " | ");
}

std::string pipeline_text(const schedule::RunPlan& plan, const ParallelArguments& arguments) {
  if (plan.stages.size() == 1) return "";
  return fmt::format("{} stages, {}, blocks {}; a bubble of about {:.0f} %", plan.stages.size(),
                     schedule::name_of(arguments.pipeline.schedule),
                     stages_text(plan.stages[0].layout), 100 * plan.timeline.idle());
}

parallel::ReplicaOptions replica_options(const TrainingArguments& arguments, bool trains) {
  const auto& parallel = arguments.parallel;
  check_effect_of_pipeline(parallel);
  parallel::ReplicaOptions options;
  options.compute_dtype = arguments.bf16 ? at::kBFloat16 : arguments.fp16 ? at::kHalf : at::kFloat;
  static_cast<schedule::RunOptions&>(options) = parallel;
  options.offload = {};
  options.num_micro_batches = arguments.gradient_accumulation_steps;
  options.seed = static_cast<uint64_t>(arguments.seed);
  options.trains = trains;
  options.optimizer = optim::make_optimizer(
      arguments.optim, {arguments.adam_beta1, arguments.adam_beta2, arguments.adam_epsilon});
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
