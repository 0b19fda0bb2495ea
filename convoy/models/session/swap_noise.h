#pragma once

#include <string>

#include "convoy/nn/block.h"

// Shapes: B rows, T positions, n values.
namespace convoy::models {

/// Replaces values of a column [B, T] as noise in training (Transformers4Rec's stochastic swap
/// noise, which draws from the batch). Each value where `real` [B, T] bool is true is replaced with
/// probability `rate` by one of `values` [n] on the host. A pure function of seed, step, sample,
/// place in the row and the column's `name`.
at::Tensor swap_noise(const at::Tensor& column, const at::Tensor& real, const at::Tensor& values,
                      double rate, const std::string& name, const nn::Context& context);

}  // namespace convoy::models
