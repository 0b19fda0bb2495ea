#pragma once

#include "convoy/planner/cost/profile.h"

namespace convoy::planner {

/// Gives a block's parameters memory, values and gradients, of the types and on the terms of
/// `options`; a table that is kept by rows those which it reads of `batch`.
void bind_params(nn::Block& block, const ProfileOptions& options, const nn::Bundle& batch,
                 const nn::Context& context);

/// Frees the memory that bind_params() gave.
void release_params(const nn::Block& block);

}  // namespace convoy::planner
