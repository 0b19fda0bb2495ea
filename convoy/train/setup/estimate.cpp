#include "convoy/train/setup/estimate.h"

#include <ATen/Parallel.h>

#include "convoy/base/error.h"
#include "convoy/nn/declare.h"
#include "convoy/profile/profile.h"
#include "convoy/train/setup/from_arguments.h"
#include "convoy/train/setup/job.h"
#include "convoy/train/setup/memory_check.h"

namespace convoy::train {

namespace {

schedule::Mesh checked_mesh(const TrainingArguments& arguments, int num_ranks) {
  const auto& parallel = arguments.parallel;
  if (parallel.offload.any()) {
    fail<UsageError>("train", "estimate does not count what is offloaded; try without offload_*");
  }
  if (parallel.strategy == "dp" || parallel.replicas > 1 ||
      (parallel.strategy == "single" && num_ranks > 1)) {
    fail<UsageError>("train",
                     "estimate is of one process, or of a process for each rank; try without "
                     "--strategy and --replicas");
  }
  if (parallel.tensor_parallel_size > 1) {
    fail<UsageError>("train",
                     "estimate runs whole layers, and knows no tensor ranks yet; got "
                     "tensor_parallel_size = {}; try without it",
                     parallel.tensor_parallel_size);
  }
  const int64_t stages = parallel.pipeline_parallel_size;
  if (num_ranks % stages != 0) {
    fail<UsageError>("train", "--ranks {} does not divide into {} stages; try --ranks {}",
                     num_ranks, stages, (num_ranks / stages + 1) * stages);
  }
  launch::RankEnvironment environment;
  environment.world_size = environment.local_world_size = num_ranks;
  return mesh_of(parallel, environment);
}

}  // namespace

Estimator::Estimator(const parallel::ModelFactory& factory, const TrainingArguments& arguments,
                     const Dataset& data, int num_ranks)
    : mesh_(checked_mesh(arguments, num_ranks)) {
  const auto replica = replica_options(arguments, true);
  options_ = replica.run();
  if (arguments.parallel.threads > 0) {
    at::set_num_threads(static_cast<int>(arguments.parallel.threads));
  }
  const auto checked = check_memory(factory, arguments, 1);
  take(pipeline_inputs(checked, arguments, &data), options_);
  const auto blocks = checked();
  model_ = nn::declare(blocks);
  const auto batch = first_batch(arguments, data, mesh_.degree(schedule::kRows));
  if (batch.empty()) {
    fail<UsageError>("train", "the training data has no rows to read the costs from");
  }
  costs_ = profile::profile(blocks, batch, {replica.compute_dtype});
}

schedule::RunPlan Estimator::plan(int64_t zero, bool recompute) const {
  auto options = options_;
  options.zero = zero;
  options.recompute = recompute;
  return schedule::plan_run(model_, mesh_, options, costs_);
}

schedule::RunPlan estimate(const parallel::ModelFactory& factory,
                           const TrainingArguments& arguments, const Dataset& data, int num_ranks) {
  return Estimator(factory, arguments, data, num_ranks).plan();
}

}  // namespace convoy::train
