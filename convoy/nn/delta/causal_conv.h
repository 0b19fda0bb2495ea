#pragma once

#include <vector>

#include "convoy/nn/block.h"
#include "convoy/nn/documents.h"

namespace convoy::nn {

/// Convolution of each channel of x [B, T, M] with its own `weight` [M, 1, W], over a position and
/// the W - 1 before it. Documents do not see those before them; with none, rows are whole. `tail`
/// [B, W - 1, M] are the inputs before x; undefined: zeros.
at::Tensor causal_conv(const at::Tensor& x, const ParamPtr& weight,
                       const std::vector<DocumentPlace>& documents, const at::Tensor& tail = {});

}  // namespace convoy::nn
