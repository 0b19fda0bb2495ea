#pragma once

#include <string>
#include <vector>

#include "convoy/models/language_model.h"
#include "convoy/models/session/session.h"
#include "convoy/options/arguments.h"
#include "convoy/planner/estimate/memory_check.h"

namespace convoy::tasks {

/// Throws UsageError when training this model does not fit into the machine's memory, before any of
/// it is taken: a schema may name ids far beyond those that occur.
void check_memory(const models::SessionConfig& model, const std::string& schema_file,
                  const options::ParallelArguments& parallel);
/// Checks a language model, with the weights of other models that are in memory beside it.
void check_memory(const models::LanguageModelConfig& config, const nn::BlockList& blocks,
                  const options::ParallelArguments& parallel,
                  const std::vector<planner::MemoryPart>& beside = {});

}  // namespace convoy::tasks
