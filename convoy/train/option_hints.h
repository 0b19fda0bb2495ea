#pragma once

#include "convoy/base/options.h"

namespace convoy::train {

/// Tells `table` which options of TrainingArguments are those of every day, and what others call
/// them: `--lr` is answered with learning_rate.
void add_hints(OptionTable& table);

}  // namespace convoy::train
