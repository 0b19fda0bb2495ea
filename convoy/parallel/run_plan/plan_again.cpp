#include "convoy/parallel/run_plan/plan_again.h"

#include <utility>

namespace convoy::parallel {

namespace {

/// Members that choose_pipeline() reads; the others as they usually are.
Parallelism read_by_choice(int num_stages, const Parallelism& of) {
  return {.ranks = {.pipeline = num_stages},
          .micro_batches = of.micro_batches,
          .zero = of.reduces_each_shard() ? 2 : 0,
          .recompute = of.recompute,
          .recomputed = of.recomputed,
          .pipeline = of.pipeline};
}

}  // namespace

const PipelineChoice& KnownChoices::of(const ModelDecl& model, int num_stages,
                                       const Parallelism& parallelism, const StepFacts& facts,
                                       const Costs& costs, const std::set<int64_t>& recomputed,
                                       const std::set<int64_t>& repeatable) {
  auto key = std::pair(read_by_choice(num_stages, parallelism), facts.trains);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  // Stages are cut and virtual stages laid as if nothing was recomputed.
  const auto& pipeline = parallelism.pipeline;
  const bool some = !parallelism.recompute && facts.trains && !parallelism.recomputed.to_fit &&
                    !parallelism.recomputed.of_stage.empty() && pipeline.csv.empty() &&
                    pipeline.splits.empty() && pipeline.memory == 0;
  PipelineChoice choice;
  if (some) {
    auto none = parallelism;
    none.recomputed = {};
    const auto& without = of(model, num_stages, none, facts, costs, recomputed, repeatable);
    choice = recompute_some_of(without, model, num_stages, parallelism, facts, costs, repeatable,
                               &pipes_);
  } else {
    choice = choose_pipeline(model, num_stages, parallelism, facts, costs, recomputed, repeatable,
                             &pipes_);
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

}  // namespace convoy::parallel
