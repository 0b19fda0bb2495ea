#pragma once

#include "convoy/base/options.h"
#include "convoy/tasks/session/session_arguments.h"

namespace convoy::tasks {

/// Throws UsageError for a given option that has no effect with the others, where its declaration
/// cannot tell.
void check_effects(const SessionArguments& arguments, const OptionTable& table);

}  // namespace convoy::tasks
