#pragma once

#include "convoy/nn/losses/cross_entropy.h"

namespace convoy::nn {

/// cross_entropy() against a table whose rows, and the bias's, `options.tensor` ranks share out.
/// Each computes the scores of its own ids; of a row the ranks tell each other the logarithm of the
/// sum of its exponentials, the target's score and the best id, in one collective for some hundred
/// rows. Loss and gradient of `h` are the same on all.
CrossEntropy vocab_parallel_cross_entropy(const at::Tensor& h, const ParamPtr& table,
                                          const at::Tensor& targets,
                                          const CrossEntropyOptions& options);

/// Adds slope^T x rows to the fp32 `grad`, or writes it there, a piece of the table at a time: the
/// product comes in half precision, and a piece is still in the cache when it is added.
void add_product(at::Tensor& grad, const at::Tensor& slope, const at::Tensor& rows, bool writes);

}  // namespace convoy::nn
