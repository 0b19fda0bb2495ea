#pragma once

#include <string>
#include <vector>

#include "convoy/schedule/pipeline/actions.h"
#include "convoy/schedule/pipeline/cut.h"
#include "convoy/schedule/run/check.h"
#include "convoy/schedule/run/memory.h"
#include "convoy/schedule/run/mesh.h"
#include "convoy/schedule/run/model_decl.h"
#include "convoy/schedule/run/run_options.h"
#include "convoy/schedule/run/simulate.h"

namespace convoy::schedule {

/// What one stage of a run keeps, does and takes, on the tensor rank that the mesh names. Ranks of
/// a stage differ in which part of the state is theirs; tensor ranks also in how much, where heads,
/// ids or inner units do not divide.
struct StagePlan {
  Layout layout;
  Program step;     ///< empty where nothing is trained
  Program forward;  ///< of an evaluation
  Alive alive;      ///< at most in a step
  MemoryUse memory;
  int64_t peak = -1;  ///< of `step`, the instruction of StepMemory::peak
};

/// What a run will do, before any memory is taken: proven by check().
struct RunPlan {
  StepOptions step;
  Cut cut;            ///< which stage has which blocks; empty without a pipeline
  Orders orders;      ///< what each stage computes; empty without a pipeline
  std::string found;  ///< with auto: the schedule that this is; empty: one that has no name
  std::vector<StagePlan> stages;  ///< of the pipeline; one without
  /// A step as it would go, in seconds of the costs; without them of several stages as
  /// RunOptions::counts has it.
  Timeline timeline;

  const StagePlan& of(const Mesh& mesh) const {
    return stages.at(static_cast<size_t>(mesh.place(Axis::Pipeline)));
  }
};

/// How many tensor ranks all blocks of a model take.
int64_t most_tensor_ranks(const ModelDecl& model);

/// Plans a run of `model` over the ranks of `mesh`; `costs`: by block, without them activations
/// count nothing; `proves`: by check(), which a search leaves for the plan that it returns. Throws
/// UsageError where stages do not go into the model or what they may keep, blocks do not take the
/// mesh's tensor ranks, or nothing can be recomputed.
RunPlan plan_run(const ModelDecl& model, const Mesh& mesh, const RunOptions& options,
                 const std::vector<BlockCost>& costs = {}, bool proves = true);

/// No schedule of the plan's cut makes a step faster than this, of what its timeline's length is.
double floor_of(const ModelDecl& model, const RunPlan& plan, const RunOptions& options,
                const std::vector<BlockCost>& costs = {});

/// Where the parameters of a model lie with these options.
Layout layout_of(const ModelDecl& model, const LayoutOptions& options);

/// Bytes of state that each rank keeps of a parameter on average, before a model is known.
double state_bytes_of_parameter(const Mesh& mesh, const RunOptions& options);

}  // namespace convoy::schedule
