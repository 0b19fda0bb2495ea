#pragma once

#include <string>

#include "convoy/models/session.h"
#include "convoy/train/arguments.h"

namespace convoy::tasks {

/// Throws UsageError when training this model does not fit into the machine's memory, before any of
/// it is taken: a schema may name ids far beyond those that occur.
void check_memory(const models::SessionConfig& model, const std::string& schema_file,
                  const train::ParallelArguments& parallel);

}  // namespace convoy::tasks
