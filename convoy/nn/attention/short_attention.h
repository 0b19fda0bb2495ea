#pragma once

#include "convoy/nn/attention/attention.h"

namespace convoy::nn {

/// Whether short_attention() can train this, and is faster: short rows on a processor, without
/// dropout and bias.
bool is_short(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options);

/// attention() with gradients that keeps the probabilities, in the dtype of `q`: whole products
/// for all rows and heads at once, and between them one pass over the scores.
at::Tensor short_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttentionOptions& options, double scale);

}  // namespace convoy::nn
