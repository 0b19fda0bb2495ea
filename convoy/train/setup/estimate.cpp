#include "convoy/train/setup/estimate.h"

#include <ATen/Parallel.h>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/echo/echo_engine.h"
#include "convoy/nn/declare.h"
#include "convoy/profile/profile.h"
#include "convoy/train/setup/batch.h"
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
  const int64_t stages = parallel.num_stages(), cuts = parallel.num_tensor_ranks();
  const int64_t model = stages * cuts;
  if (num_ranks % model != 0) {
    std::vector<std::string> parts;
    if (stages > 1) parts.push_back(fmt::format("{} stages", stages));
    if (cuts > 1) parts.push_back(fmt::format("{} tensor ranks", cuts));
    fail<UsageError>("train", "--ranks {} does not divide into {}; try --ranks {}", num_ranks,
                     join(parts, " x "), (num_ranks / model + 1) * model);
  }
  launch::RankEnvironment environment;
  environment.world_size = environment.local_world_size = num_ranks;
  return mesh_of(parallel, environment);
}

/// The tensor rank that has most of the parameters: of several the last.
schedule::Mesh of_largest_share(const schedule::ModelDecl& model, const schedule::Mesh& mesh) {
  int64_t most = -1;
  int largest = mesh.rank();
  for (const int rank : mesh.ranks_along(schedule::Axis::Tensor)) {
    const auto other = mesh.of(rank);
    const schedule::TensorPlace place{other.place(schedule::Axis::Tensor),
                                      other.degree(schedule::Axis::Tensor)};
    int64_t elements = 0;
    for (const auto& param : model.params) {
      elements += schedule::num_elements(schedule::local_shape(param.shape, param.cut, place));
    }
    if (elements >= most) most = elements, largest = rank;
  }
  return mesh.of(largest);
}

}  // namespace

Estimator::Estimator(const parallel::ModelFactory& factory, TrainingArguments arguments,
                     const Dataset& data, int num_ranks)
    : mesh_(checked_mesh(arguments, num_ranks)) {
  hold_batch(arguments, mesh_.degree(schedule::kRows));
  const auto replica = replica_options(arguments, true);
  options_ = replica.run();
  if (arguments.parallel.threads > 0) {
    at::set_num_threads(static_cast<int>(arguments.parallel.threads));
  }
  const auto checked = check_memory(factory, arguments, 1);
  take(pipeline_inputs(checked, arguments, &data), options_);
  const auto blocks = checked();
  model_ = nn::declare(blocks);
  mesh_ = of_largest_share(model_, mesh_);
  if (mesh_.degree(schedule::Axis::Tensor) > 1) {
    schedule::plan_run(model_, mesh_, options_);  // tells what does not go before anything runs
  }
  const auto batch = first_batch(arguments, data, mesh_.degree(schedule::kRows));
  if (batch.empty()) {
    fail<UsageError>("train", "the training data has no rows to read the costs from");
  }
  const auto tensor = schedule::Axis::Tensor;
  costs_ =
      profile::profile(blocks, batch,
                       {.compute_dtype = replica.compute_dtype,
                        .tensor = comm::echo_group(mesh_.place(tensor), mesh_.degree(tensor))});
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
