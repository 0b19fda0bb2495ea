#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "convoy/parallel/run_plan/choose.h"
#include "convoy/parallel/run_plan/run_plan.h"

// Plans of a search, which plans runs of one model again and again.
namespace convoy::parallel {

/// Choices for one model and what its blocks cost, each made once.
class KnownChoices {
 public:
  const PipelineChoice& of(const ChoiceInputs& inputs);

  KnownPipes& pipes() { return pipes_; }
  /// layout_of() the model.
  Layout layout(const ModelDecl& model, const LayoutOptions& options);

 private:
  /// [members that choose_pipeline() reads, whether it trains]
  std::map<std::pair<Parallelism, bool>, PipelineChoice> known_;
  KnownPipes pipes_;
  /// Units of the model, experts apart or not.
  struct KnownUnits {
    ModelTable table;
    std::shared_ptr<const Layout::Shapes> shapes;
  };
  std::map<bool, KnownUnits> units_;
};

/// plan_run() without a proof or programs of evaluations, with stages and orders that were chosen
/// before for this model and these counts. Null: none were.
RunPlan plan_again(const ModelDecl& model, const Mesh& mesh, const Parallelism& parallelism,
                   const StepFacts& facts, const std::vector<BlockCost>& costs,
                   KnownChoices* known);

/// Costs by block that stages are cut by, equal on all ranks: StepFacts::counts, else elements.
Costs shared_costs(const ModelDecl& model, const StepFacts& facts);

}  // namespace convoy::parallel
