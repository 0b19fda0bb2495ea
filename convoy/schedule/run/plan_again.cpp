#include "convoy/schedule/run/plan_again.h"

#include <utility>

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
  // Stages are cut and virtual stages laid as if nothing was recomputed.
  const bool some = !options.recompute && options.trains && !options.recomputed.to_fit &&
                    !options.recomputed.of_stage.empty() && pipeline.csv.empty() &&
                    pipeline.splits.empty() && pipeline.memory == 0;
  PipelineChoice choice;
  if (some) {
    auto none = options;
    none.recomputed = {};
    const auto& without = of(model, num_stages, none, costs, recomputed, repeatable);
    choice = recompute_some_of(without, model, num_stages, options, costs, repeatable, &pipes_);
  } else {
    choice = choose_pipeline(model, num_stages, options, costs, recomputed, repeatable, &pipes_);
  }
  return known_.emplace(std::move(key), std::move(choice)).first->second;
}

Layout KnownChoices::layout(const ModelDecl& model, const LayoutOptions& options) {
  if (!table_) {
    auto units = units_of(model);
    table_ = std::move(units.table);
    shapes_ = std::make_shared<const Layout::Shapes>(std::move(units.shapes));
  }
  return {*table_, shapes_, options};
}

}  // namespace convoy::schedule
