#pragma once

#include "convoy/dataset/batches.h"
#include "convoy/options/arguments.h"
#include "convoy/parallel/buffers/types.h"
#include "convoy/parallel/mesh.h"
#include "convoy/parallel/model_decl.h"
#include "convoy/parallel/step_facts.h"

namespace convoy::planner {

/// A training as its arguments spread it over ranks, before anything is measured.
struct AskedRun {
  parallel::Mesh mesh;  ///< of a rank that none has more parameters or positions than
  parallel::Parallelism parallelism;
  parallel::StepFacts facts;
  parallel::ModelDecl model;
};

/// Spreads a training over `num_ranks` ranks, a process each. Throws UsageError where they
/// contradict the arguments, and for DataParallel.
AskedRun asked_run(const parallel::ModelFactory& factory, options::TrainingArguments arguments,
                   const dataset::Dataset& data, int num_ranks);

/// Spreads another model, which only evaluates, over the ranks of a training with these arguments.
AskedRun asked_evaluation(const parallel::ModelFactory& factory,
                          const options::TrainingArguments& arguments, int num_ranks);

}  // namespace convoy::planner
