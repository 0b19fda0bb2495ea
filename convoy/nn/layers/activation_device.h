#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace convoy::nn {

/// Activation x s(x): s is a sigmoid of linear x + cubic x^3, or the normal distribution's.
struct Curve {
  bool normal = false;
  float linear = 1, cubic = 0;
};

/// {x s(x) times} on a GPU, or with `grad` the gradients of x and `times` (undefined: ones), in one
/// launch; empty where torch cannot compile the kernel. In backward x and `times` may be two of
/// neighbouring columns: so are the gradients.
std::vector<at::Tensor> activate_on_device(const Curve& curve, const at::Tensor& x,
                                           const at::Tensor& times, const at::Tensor& grad);

/// Computes one element as the kernels do: the result; and the gradients of x and of `times`.
float activation_element(const Curve& curve, float x, float times);
float activation_slope(const Curve& curve, float x, float times, float grad, bool of_times);
/// Computation of activation_element() and activation_slope() for four bf16 numbers that are
/// packed().
int64_t packed_activation(const Curve& curve, int64_t x, int64_t times);
int64_t packed_slope(const Curve& curve, int64_t x, int64_t times, int64_t grad, bool of_times);
/// Computation for four packed() bf16 numbers of an activation without `times`.
int64_t packed_activation(const Curve& curve, int64_t x);
int64_t packed_slope(const Curve& curve, int64_t x, int64_t grad);

}  // namespace convoy::nn
