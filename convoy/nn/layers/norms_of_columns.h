#pragma once

#include <vector>

#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::nn {

/// RMS norms of rows whose columns the tensor ranks share out, each over all columns of all ranks,
/// as rms_norm() for rows that only products read: x[i] [..., columns here] times weights[i]
/// [columns here], which is cut along its only dimension. One all-reduce of the sums of squares in
/// forward and one in backward serve all of them. Columns that several ranks hold count once.
std::vector<at::Tensor> rms_norms_of_columns(const std::vector<at::Tensor>& x,
                                             const std::vector<ParamPtr>& weights, double epsilon,
                                             const TensorRanks& ranks);

}  // namespace convoy::nn
