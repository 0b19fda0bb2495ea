#pragma once

#include "convoy/nn/losses/cross_entropy.h"

// Weights of rows in a cross-entropy, for those that compute it a piece of the rows at a time.
// Shapes: R rows at once, D model width.
namespace convoy::nn {

/// Fails where the options have weights and a bias.
void check_weights(const CrossEntropyOptions& options);

/// Adds the losses [R] fp32 of the rows from `begin` on to out.loss, each by its weight, and keeps
/// them where out.losses is there.
void add_losses(const at::Tensor& losses, const CrossEntropyOptions& options, int64_t begin,
                CrossEntropy& out);

/// Returns the states `rows` [R, D] from row `begin` on, each times its weight.
at::Tensor weighted_rows(const at::Tensor& rows, const CrossEntropyOptions& options, int64_t begin);

}  // namespace convoy::nn
