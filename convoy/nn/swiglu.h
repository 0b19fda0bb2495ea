#pragma once

#include <ATen/core/Tensor.h>

namespace convoy::nn {

/// silu(gate) x up, elementwise (Shazeer, "GLU variants improve transformer", 2020). Keeps its two
/// inputs only; backward makes the rest again.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace convoy::nn
