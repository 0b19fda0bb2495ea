#pragma once

#include "convoy/parallel/model_decl.h"

namespace convoy::parallel {

/// Throws UsageError where no table of the model can be kept by rows.
void check_row_tables(const ModelDecl& model);

}  // namespace convoy::parallel
