#include "convoy/parallel/row_tables/table_check.h"

#include <algorithm>

#include "convoy/base/error.h"

namespace convoy::parallel {

void check_row_tables(const ModelDecl& model) {
  if (std::any_of(model.params.begin(), model.params.end(),
                  [](const auto& param) { return param.row_reads && param.trained; })) {
    return;
  }
  fail<UsageError>("parallel",
                   "row_tables = true needs a table of which a step reads some rows, as of a "
                   "trained embedding "
                   "that scores, too, under a loss that samples; got none; try --sampled_softmax "
                   "true --weight_tying true (and "
                   "--pretrained_trainable true where it begins with vectors), or without it");
}

}  // namespace convoy::parallel
