#include "convoy/nn/root_gradient.h"

#include <ATen/ATen.h>

#include "convoy/nn/device_kernel.h"

namespace convoy::nn {

namespace {

/// The 1 of a GPU: all who ask on a stream get the same tensor.
at::Tensor one_of(at::Device device) {
  return kept_on(device, {static_cast<int64_t>(Kept::One)}, [] { return at::ones({}); });
}

}  // namespace

at::Tensor root_gradient(const at::Tensor& loss, double scale) {
  const bool kept =
      loss.is_cuda() && loss.dim() == 0 && loss.scalar_type() == at::kFloat && scale == 1;
  return kept ? one_of(loss.device()) : at::full_like(loss, scale);
}

bool is_known_one(const at::Tensor& grad) {
  if (grad.scalar_type() != at::kFloat || grad.dim() != 0) return false;
  if (grad.is_cuda()) return grad.is_same(one_of(grad.device()));
  return grad.is_cpu() && *grad.const_data_ptr<float>() == 1;
}

}  // namespace convoy::nn
