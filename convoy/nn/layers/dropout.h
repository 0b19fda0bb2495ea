#pragma once

#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::nn {

/// Inverted dropout whose mask is a pure function of (seed, step, block, site) and of each
/// element's own coordinates: the row's index in the step's global batch and its place in the row.
/// Every way of cutting the batch over devices and micro-batches draws the same mask.
///
/// x [rows, ...]; context.samples [rows]. Identity unless training with `rate` > 0.
/// `extents` bounds the sizes of the dimensions after the first where those vary with padding
/// (all but the outermost of them must be given alike for every batch); default: x's own sizes. Of
/// a part of x, `origin` says where it begins in these dimensions.
at::Tensor dropout(const at::Tensor& x, double rate, const Context& context, int64_t site,
                   at::IntArrayRef extents = {}, at::IntArrayRef origin = {});

/// Dropout of states, x [B, T, D] or shares of them, [n, D]: each token has its mask among all
/// tokens.
at::Tensor dropout(const at::Tensor& x, double rate, const Context& context, int64_t site,
                   const TensorRanks& ranks);

/// Mask of some of the tokens of rows of `length`, as dropout() of x [B, length, D] draws it:
/// [A, D] on the host. `tokens` [A] int64 on the host: indices into all tokens, flattened.
at::Tensor mask_of_tokens(const at::Tensor& tokens, int64_t length, int64_t D, double rate,
                          const Context& context, int64_t site);

/// x plus dropout() of `added`: on a GPU in one pass, the mask being drawn again in backward
/// instead of kept.
at::Tensor add_dropped(const at::Tensor& x, const at::Tensor& added, double rate,
                       const Context& context, int64_t site, const TensorRanks& ranks);

/// The mask itself: 0 or 1 / (1 - rate), fp32, shape `sizes`, the same bits on every device. Of a
/// larger x that is never there as a whole, `origin` says where this part begins.
at::Tensor dropout_mask(at::IntArrayRef sizes, double rate, const Context& context, int64_t site,
                        at::IntArrayRef extents = {}, at::IntArrayRef origin = {},
                        at::Device device = at::kCPU);

}  // namespace convoy::nn
