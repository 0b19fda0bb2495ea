#pragma once

#include "convoy/parallel/model_decl.h"

namespace convoy::parallel {

/// Throws UsageError where not all blocks take some positions of rows only.
void check_context_ranks(const ModelDecl& model, int num_ranks);

}  // namespace convoy::parallel
