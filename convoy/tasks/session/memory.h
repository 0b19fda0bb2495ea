#pragma once

#include <string>

#include "convoy/models/session.h"

namespace convoy::tasks {

/// Throws UsageError when training this model does not fit into the machine's memory, before any of
/// it is taken: a schema may name ids far beyond those that occur.
void check_memory(const models::SessionConfig& model, const std::string& schema_file);

}  // namespace convoy::tasks
