#pragma once

#include <ATen/Functions.h>

#include <cmath>

namespace convoy::parallel {

/// Whether all of `values` are: the largest magnitude says it without an overflow of its own.
inline bool is_finite(const at::Tensor& values) {
  return values.numel() == 0 ||
         std::isfinite(at::linalg_vector_norm(values, HUGE_VAL).item<double>());
}

}  // namespace convoy::parallel
