#pragma once

#include <cstdint>

#include "convoy/options/arguments.h"

namespace convoy::options {

/// Rows of a step on so many ranks that share out the data: global_batch_size, or what the other
/// options come to.
int64_t step_rows(const TrainingArguments& arguments, int64_t data_ranks);

/// Turns global_batch_size, where it is given, into the gradient_accumulation_steps that make it
/// with micro-batches of `per_device` rows on so many ranks that share out the data. Throws
/// UsageError where it does not divide, saying what does, and where the arguments ask for another
/// gradient_accumulation_steps, too.
void hold_batch(TrainingArguments& arguments, int64_t data_ranks, int64_t per_device);
void hold_batch(TrainingArguments& arguments, int64_t data_ranks);

}  // namespace convoy::options
