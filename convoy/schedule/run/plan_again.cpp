#include "convoy/schedule/run/plan_again.h"

namespace convoy::schedule {

const PipelineChoice& KnownChoices::of(const ModelDecl& model, int num_stages,
                                       const RunOptions& options, const Costs& costs,
                                       const std::set<int64_t>& recomputed,
                                       const std::set<int64_t>& repeatable) {
  const auto& pipeline = options.pipeline;
  const int placement = pipeline.placement ? static_cast<int>(*pipeline.placement) : -1;
  Key key{num_stages,
          options.num_micro_batches,
          pipeline.schedule,
          pipeline.virtual_stages,
          pipeline.splits,
          placement,
          pipeline.memory,
          pipeline.csv,
          options.recompute,
          options.recomputed.to_fit,
          options.recomputed.of_stage,
          options.trains,
          options.zero >= 2 && options.reduce_each};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  auto choice = choose_pipeline(model, num_stages, options, costs, recomputed, repeatable);
  return known_.emplace(std::move(key), std::move(choice)).first->second;
}

}  // namespace convoy::schedule
