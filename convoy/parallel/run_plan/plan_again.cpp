#include "convoy/parallel/run_plan/plan_again.h"

#include <utility>

namespace convoy::parallel {

namespace {

/// Copy with the members that choose_pipeline() reads, and defaults for the others.
Parallelism read_by_choice(const ChoiceInputs& inputs) {
  const auto& of = inputs.parallelism;
  return {.ranks = {.pipeline = inputs.num_stages()},
          .micro_batches = of.micro_batches,
          .zero = of.reduces_each_shard() ? 2 : 0,
          .recompute = of.recompute,
          .recomputed = of.recomputed,
          .pipeline = of.pipeline};
}

}  // namespace

const PipelineChoice& KnownChoices::of(const ChoiceInputs& inputs) {
  const auto& parallelism = inputs.parallelism;
  const bool trains = inputs.facts.trains;
  auto key = std::pair(read_by_choice(inputs), trains);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  // Stages are cut and virtual stages laid as if nothing was recomputed.
  const auto& pipeline = parallelism.pipeline;
  const bool some = !parallelism.recompute && trains && !parallelism.recomputed.to_fit &&
                    !parallelism.recomputed.of_stage.empty() && pipeline.csv.empty() &&
                    pipeline.splits.empty() && pipeline.memory == 0;
  auto known = inputs;
  known.known = &pipes_;
  if (!some) return known_.emplace(std::move(key), choose_pipeline(known)).first->second;
  auto none = parallelism;
  none.recomputed = {};
  const auto& without = of({.model = inputs.model,
                            .parallelism = none,
                            .facts = inputs.facts,
                            .costs = inputs.costs,
                            .recomputed = inputs.recomputed,
                            .repeatable = inputs.repeatable});
  return known_.emplace(std::move(key), recompute_some_of(without, known)).first->second;
}

Layout KnownChoices::layout(const ModelDecl& model, const LayoutOptions& options) {
  const bool experts_apart = options.tensor.num_expert_ranks > 1;
  auto [found, fresh] = units_.try_emplace(experts_apart);
  auto& known = found->second;
  if (fresh) {
    auto units = units_of(model, experts_apart);
    known = {std::move(units.table),
             std::make_shared<const Layout::Shapes>(std::move(units.shapes))};
  }
  return {known.table, known.shapes, options};
}

}  // namespace convoy::parallel
