#pragma once

#include <cstdint>

#include "convoy/options/arguments.h"
#include "convoy/parallel/model_decl.h"

namespace convoy::planner {

/// Bytes of each host for the two copies of a training's state in memory that memory_copy_steps
/// asks for; 0 where it does not: then copies are made where they leave enough free.
int64_t bytes_of_memory_copies(const parallel::ModelDecl& model,
                               const options::TrainingArguments& arguments);

}  // namespace convoy::planner
