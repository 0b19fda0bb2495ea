#pragma once

#include "convoy/parallel/run/types.h"
#include "convoy/schedule/run/mesh.h"
#include "convoy/schedule/run/model_decl.h"
#include "convoy/schedule/run/step_facts.h"
#include "convoy/train/batches.h"
#include "convoy/train/setup/arguments.h"

namespace convoy::train {

/// A training as its arguments spread it over ranks, before anything is measured.
struct AskedRun {
  schedule::Mesh mesh;  ///< of a rank that none has more parameters or positions than
  schedule::Parallelism parallelism;
  schedule::StepFacts facts;
  schedule::ModelDecl model;
};

/// Spreads a training over `num_ranks` ranks, a process each. Throws UsageError where they
/// contradict the arguments, and for DataParallel.
AskedRun asked_run(const parallel::ModelFactory& factory, TrainingArguments arguments,
                   const Dataset& data, int num_ranks);

}  // namespace convoy::train
