#pragma once

#include "convoy/train/loop/run_context.h"
#include "convoy/train/trainer.h"

namespace convoy::train {

/// Makes the model's replicas of this process, and what spreads steps over all ranks. `train_data`
/// may be null: nothing is trained. Throws UsageError where the model has no room. Collective.
std::unique_ptr<parallel::Strategy> make_strategy(const RunContext& run,
                                                  const parallel::ModelFactory& factory,
                                                  const dataset::Dataset* train_data,
                                                  Trainer::Fill fill);

/// Throws UsageError where the model cannot be trained: nothing of it is trainable, or gradients
/// are off in this thread.
void check_gradients(parallel::Strategy& strategy);

}  // namespace convoy::train
