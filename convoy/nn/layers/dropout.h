#pragma once

#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::nn {

/// Inverted dropout whose mask is a pure function of (seed, step, block, site) and of each
/// element's own coordinates: the row's index in the step's global batch and its place in the row.
/// Every way of cutting the batch over devices and micro-batches draws the same mask.
///
/// x [rows, ...]; context.samples [rows]. Identity unless training with `rate` > 0. `extents` are
/// upper bounds of the sizes of the dimensions after the first, for sizes that vary with padding;
/// all but the first of them must be equal for every batch. Default: x's own sizes. If x is a part
/// of a larger tensor, `origin` is the index at which it begins in each of these dimensions.
at::Tensor dropout(const at::Tensor& x, double rate, const Context& context, int64_t site,
                   at::IntArrayRef extents = {}, at::IntArrayRef origin = {});

/// Dropout of states, x [B, T, D] or a rank's tokens of them, [n, D]: each token gets the mask of
/// its place among all tokens.
at::Tensor dropout(const at::Tensor& x, double rate, const Context& context, int64_t site,
                   const TensorRanks& ranks);

/// Mask of some tokens, as dropout() of x [B, length, D] draws it: [A, D] on the host. `tokens` [A]
/// int64 on the host: indices into all tokens, flattened.
at::Tensor mask_of_tokens(const at::Tensor& tokens, int64_t length, int64_t D, double rate,
                          const Context& context, int64_t site);

/// Returns x plus dropout() of `added`. On a GPU it is one pass, and backward draws the mask again
/// instead of keeping it.
at::Tensor add_dropped(const at::Tensor& x, const at::Tensor& added, double rate,
                       const Context& context, int64_t site, const TensorRanks& ranks);

/// Returns the mask: 0 or 1 / (1 - rate), fp32, of shape `sizes`, with the same bits on every
/// device. If it is for a part of a larger tensor, `origin` is the index at which the part begins
/// in each dimension after the first.
at::Tensor dropout_mask(at::IntArrayRef sizes, double rate, const Context& context, int64_t site,
                        at::IntArrayRef extents = {}, at::IntArrayRef origin = {},
                        at::Device device = at::kCPU);

}  // namespace convoy::nn
