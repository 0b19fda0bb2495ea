#pragma once

#include "convoy/nn/block.h"

namespace convoy::nn {

/// Adds `rows` [N, D] fp32 to the gradient of the rows `ids` [N] int64 of `table` [V, D], whose
/// rows `tensor` ranks may share out: each adds to those that it has.
void add_to_table(const ParamPtr& table, const at::Tensor& ids, const at::Tensor& rows,
                  const comm::Group& tensor);

}  // namespace convoy::nn
