#pragma once

#include <set>
#include <string>

#include "convoy/parallel/model_decl.h"
#include "convoy/parallel/pipeline/actions.h"
#include "convoy/parallel/pipeline/cut.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/step_facts.h"

namespace convoy::parallel {

/// Stages and orders that follow from a run's options.
struct PipelineChoice {
  Cut cut;
  Orders orders;
  std::set<int64_t> recomputed;  ///< blocks
  std::string found = {};        ///< with auto: the name of this schedule; empty: it has none
};

/// Facts by which a model is cut into stages. What it refers to must outlive it.
struct ChoiceInputs {
  const ModelDecl& model;
  const Parallelism& parallelism;  ///< with the mesh's degrees
  const StepFacts& facts;
  const Costs& costs;                   ///< by block
  const std::set<int64_t>& recomputed;  ///< blocks that are, whatever the cut
  const std::set<int64_t>& repeatable;  ///< blocks that Parallelism::recomputed may choose
  KnownPipes* known = nullptr;          ///< orders that were found before

  int num_stages() const { return static_cast<int>(parallelism.ranks.pipeline); }
};

/// Cuts a model into stages and finds the order of each. Without bytes in the costs the options may
/// set no limit of memory. Throws UsageError where the options do not go together or into the
/// model, and where stages would keep more than they may.
PipelineChoice choose_pipeline(const ChoiceInputs& inputs);

/// Chooses a pipeline like choose_pipeline(), with some blocks of each stage recomputed
/// (RecomputeOptions::of_stage); `without` is the choice without recomputation.
PipelineChoice recompute_some_of(const PipelineChoice& without, const ChoiceInputs& inputs);

/// Blocks that a run without stages recomputes. Throws UsageError where it has fewer.
std::set<int64_t> blocks_of_one_stage(const RecomputeOptions& options, const Costs& costs,
                                      const std::set<int64_t>& repeatable);

}  // namespace convoy::parallel
