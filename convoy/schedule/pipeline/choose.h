#pragma once

#include <set>
#include <string>

#include "convoy/schedule/pipeline/actions.h"
#include "convoy/schedule/pipeline/cut.h"
#include "convoy/schedule/pipeline/pipeline.h"
#include "convoy/schedule/run/model_decl.h"

namespace convoy::schedule {

/// What a run's options make of its stages.
struct PipelineChoice {
  Cut cut;
  Orders orders;
  std::set<int64_t> recomputed;  ///< blocks
  std::string found = {};        ///< with auto: the schedule that this is; empty: one of its own
};

/// Cuts a model into stages and finds what each does in which order; `costs`: by block, without
/// bytes nothing may be asked of memory. All blocks of `recomputed` are, and of `repeatable` those
/// that RunOptions::recomputed asks for. Throws UsageError where the options do not go together or
/// into the model, and where stages would keep more than they may.
PipelineChoice choose_pipeline(const ModelDecl& model, int num_stages, const RunOptions& options,
                               const Costs& costs, const std::set<int64_t>& recomputed,
                               const std::set<int64_t>& repeatable, KnownPipes* known = nullptr);

/// The same with some blocks of each stage recomputed (RecomputeOptions::of_stage), given the
/// choice without.
PipelineChoice recompute_some_of(const PipelineChoice& without, const ModelDecl& model,
                                 int num_stages, const RunOptions& options, const Costs& costs,
                                 const std::set<int64_t>& repeatable, KnownPipes* known);

/// The blocks that a run without stages recomputes. Throws UsageError where it has not as many.
std::set<int64_t> blocks_of_one_stage(const RecomputeOptions& options, const Costs& costs,
                                      const std::set<int64_t>& repeatable);

}  // namespace convoy::schedule
