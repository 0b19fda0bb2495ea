#pragma once

#include <string>

#include "convoy/models/language_model.h"
#include "convoy/models/session/session.h"
#include "convoy/train/setup/arguments.h"

namespace convoy::tasks {

/// Throw UsageError when training this model does not fit into the machine's memory, before any of
/// it is taken: a schema may name ids far beyond those that occur.
void check_memory(const models::SessionConfig& model, const std::string& schema_file,
                  const train::ParallelArguments& parallel);
void check_memory(const models::LanguageModelConfig& config, const nn::BlockList& blocks,
                  const train::ParallelArguments& parallel);

}  // namespace convoy::tasks
