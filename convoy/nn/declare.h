#pragma once

#include <vector>

#include "convoy/nn/block.h"
#include "convoy/parallel/model_decl.h"

namespace convoy::nn {

/// Returns the parameters of a model, each once, in the order of the blocks that read them.
std::vector<ParamPtr> params_of(const BlockList& blocks);

/// Declares a model to the planner; its parameters are those of params_of().
parallel::ModelDecl declare(const BlockList& blocks);

}  // namespace convoy::nn
