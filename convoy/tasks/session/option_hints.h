#pragma once

#include "convoy/base/options.h"

namespace convoy::tasks {

/// Tells `table` which options of SessionArguments are those of every day, and what others call
/// them: `--hidden_size` is answered with d_model.
void add_hints(OptionTable& table);

}  // namespace convoy::tasks
