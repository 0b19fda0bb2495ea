#pragma once

#include <string>

#include "convoy/nn/block.h"

// Shapes: B rows, T positions, n values.
namespace convoy::models {

/// A column [B, T] some of whose values are replaced by others of it, as noise in training
/// (Transformers4Rec's stochastic swap noise, whose values are those of the batch): each where
/// `real` [B, T] bool is true with probability `rate`, by one of `values` [n] on the host. A pure
/// function of seed, step, sample, place in the row and the column's `name`.
at::Tensor swap_noise(const at::Tensor& column, const at::Tensor& real, const at::Tensor& values,
                      double rate, const std::string& name, const nn::Context& context);

}  // namespace convoy::models
