#include "convoy/planner/estimate/asked_run.h"

#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/job/job.h"
#include "convoy/job/run_options.h"
#include "convoy/nn/declare.h"
#include "convoy/options/batch.h"
#include "convoy/parallel/run_plan/run_plan.h"
#include "convoy/planner/cost/pipeline_inputs.h"
#include "convoy/planner/estimate/memory_check.h"

namespace convoy::planner {

namespace {

parallel::Mesh checked_mesh(const options::TrainingArguments& arguments, int num_ranks) {
  const auto& parallel = arguments.parallel;
  if (parallel.strategy == "dp" || parallel.replicas > 1 ||
      (parallel.strategy == "single" && num_ranks > 1)) {
    fail<UsageError>("train",
                     "an estimate is of one process, or of a process for each rank; try without "
                     "--strategy and --replicas");
  }
  const int64_t stages = parallel.num_stages(), cuts = parallel.num_tensor_ranks();
  const int64_t contexts = parallel.num_context_ranks(), experts = parallel.num_expert_ranks();
  const int64_t model = parallel.ranks_of_rows() * experts;
  if (num_ranks % model != 0) {
    std::vector<std::string> parts;
    if (stages > 1) parts.push_back(fmt::format("{} stages", stages));
    if (experts > 1) parts.push_back(fmt::format("{} expert ranks", experts));
    if (contexts > 1) parts.push_back(fmt::format("{} context ranks", contexts));
    if (cuts > 1) parts.push_back(fmt::format("{} tensor ranks", cuts));
    fail<UsageError>("train", "--ranks {} does not divide into {}; try --ranks {}", num_ranks,
                     join(parts, " x "), (num_ranks / model + 1) * model);
  }
  launch::RankEnvironment environment;
  environment.world_size = environment.local_world_size = num_ranks;
  return job::mesh_of(parallel, environment);
}

/// Mesh of the rank with the largest share: of tensor ranks the one with most parameters, the last
/// of several; of context ranks the last, which has the most positions.
parallel::Mesh of_largest_share(const parallel::ModelDecl& model, const parallel::Mesh& first) {
  const auto mesh = first.of(first.ranks_along(parallel::Axis::Context).back());
  int64_t most = -1;
  int largest = mesh.rank();
  for (const int rank : mesh.ranks_along(parallel::Axis::Tensor)) {
    const auto other = mesh.of(rank);
    const parallel::TensorPlace place{other.place(parallel::Axis::Tensor),
                                      other.degree(parallel::Axis::Tensor)};
    int64_t elements = 0;
    for (const auto& param : model.params) {
      elements += parallel::local_elements(param.shape, param.cut, place);
    }
    if (elements >= most) most = elements, largest = rank;
  }
  return mesh.of(largest);
}

}  // namespace

AskedRun asked_run(const parallel::ModelFactory& factory, options::TrainingArguments arguments,
                   const dataset::Dataset& data, int num_ranks) {
  AskedRun out{.mesh = checked_mesh(arguments, num_ranks)};
  options::hold_batch(arguments, out.mesh.degree(parallel::kRows));
  const auto replica = job::replica_options(arguments, true);
  out.parallelism = replica.parallelism;
  out.facts = replica.facts();
  out.parallelism.offload = arguments.parallel.parallelism.offload;
  const auto checked = check_memory(factory, arguments, 1);
  take(pipeline_inputs(checked, arguments, &data), out.parallelism, out.facts.counts);
  out.model = nn::declare(checked());
  out.mesh = of_largest_share(out.model, out.mesh);
  return out;
}

AskedRun asked_evaluation(const parallel::ModelFactory& factory,
                          const options::TrainingArguments& arguments, int num_ranks) {
  AskedRun out{.mesh = checked_mesh(arguments, num_ranks)};
  const auto replica = job::replica_options(arguments, false);
  out.parallelism = replica.parallelism;
  out.facts = replica.facts();
  out.model = nn::declare(factory());
  out.mesh = of_largest_share(out.model, out.mesh);
  return out;
}

}  // namespace convoy::planner
