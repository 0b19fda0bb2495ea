#pragma once

#include <set>
#include <string>
#include <vector>

#include "convoy/parallel/mesh.h"
#include "convoy/parallel/model_decl.h"
#include "convoy/parallel/pipeline/actions.h"
#include "convoy/parallel/pipeline/cut.h"
#include "convoy/parallel/program/check.h"
#include "convoy/parallel/program/memory.h"
#include "convoy/parallel/program/simulate.h"
#include "convoy/parallel/step_facts.h"

namespace convoy::parallel {

/// Layout, programs and memory of one stage of a run, on the tensor rank that the mesh names. Ranks
/// of a stage differ in which part of the state is theirs; tensor ranks also in how much, where
/// heads, ids or inner units do not divide.
struct StagePlan {
  Layout layout;
  Program step;     ///< empty where nothing is trained
  Program forward;  ///< of an evaluation
  Alive alive;      ///< at most in a step
  MemoryUse memory;
  int64_t peak = -1;  ///< of `step`, the instruction of StepMemory::peak; below 0: none
};

/// Plan of a run, before any memory is taken: proven by check().
struct RunPlan {
  StepOptions step;
  Cut cut;                        ///< blocks of each stage; empty without a pipeline
  Orders orders;                  ///< actions of each stage; empty without a pipeline
  std::string found;              ///< with auto: the name of this schedule; empty: it has none
  std::vector<StagePlan> stages;  ///< of the pipeline; one without
  /// Simulated step, in seconds of the costs; without costs, for several stages, in the unit of
  /// StepFacts::counts.
  Timeline timeline;

  const StagePlan& of(const Mesh& mesh) const {
    return stages.at(static_cast<size_t>(mesh.place(Axis::Pipeline)));
  }
  /// Blocks that are recomputed for lack of memory, though no option asks for it.
  std::set<int64_t> recomputed_by_choice() const;
};

/// Largest number of tensor ranks that all blocks of a model take.
int64_t most_tensor_ranks(const ModelDecl& model);

/// Plans a run of `model` over the ranks of `mesh`. `costs`: by block; without them activations
/// count nothing. `proves`: whether check() proves the plan, which a search does only for the plan
/// that it returns. Throws UsageError where stages do not go into the model or into the memory they
/// may use, blocks do not take the mesh's tensor ranks, or nothing can be recomputed.
RunPlan plan_run(const ModelDecl& model, const Mesh& mesh, const Parallelism& parallelism,
                 const StepFacts& facts = {}, const std::vector<BlockCost>& costs = {},
                 bool proves = true);

/// Lower bound of a step's time over all schedules of the plan's cut, in its timeline's unit.
double floor_of(const ModelDecl& model, const RunPlan& plan, const Parallelism& parallelism,
                const StepFacts& facts = {}, const std::vector<BlockCost>& costs = {});

/// Places of a model's parameters with these options.
Layout layout_of(const ModelDecl& model, const LayoutOptions& options);

}  // namespace convoy::parallel
