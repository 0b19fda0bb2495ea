#pragma once

#include "convoy/options/arguments.h"
#include "convoy/train/state.h"

namespace convoy::train {

/// Number of steps that `value` stands for: below 1 a part of all steps.
int64_t steps_of(double value, const TrainerState& state);

/// Step that a training ends after: the last of all, or that of stop_steps.
int64_t last_step(const options::TrainingArguments& arguments, const TrainerState& state);

/// Whether logging, evaluation or saving is due after this step. `strategy`: "steps" (every so
/// many, see steps_of()), "epoch" or "no".
bool is_due(const std::string& strategy, double steps, const TrainerState& state, bool epoch_end);

/// Learning rate of an update; updates count from 0.
double learning_rate(const options::TrainingArguments& arguments, const TrainerState& state,
                     int64_t update);

}  // namespace convoy::train
