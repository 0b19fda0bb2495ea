#include "convoy/nn/few_rows.h"

#include <ATen/ATen.h>

namespace convoy::nn {

at::Tensor product_with_rows(const at::Tensor& x, const at::Tensor& matrix,
                             const at::Tensor& bias) {
  constexpr int64_t kLeast = 4, kMost = 16, kLarge = int64_t{1} << 18;
  const bool turns = x.is_cpu() && x.scalar_type() == at::kFloat && x.size(0) >= kLeast &&
                     x.size(0) <= kMost && matrix.numel() >= kLarge;
  if (!turns) return bias.defined() ? at::addmm(bias, x, matrix.t()) : at::mm(x, matrix.t());
  const auto out = at::mm(matrix, x.t()).t();
  return (bias.defined() ? out + bias : out).contiguous();
}

}  // namespace convoy::nn
