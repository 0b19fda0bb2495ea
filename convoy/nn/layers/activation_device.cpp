#include "convoy/nn/layers/activation_device.h"

#include <ATen/ATen.h>

#include <cmath>

#include "convoy/nn/device_kernel.h"
#include "convoy/nn/layers/activation_text.h"
#include "convoy/nn/layers/gated_kernel.h"

namespace convoy::nn {

namespace {

std::vector<c10::Scalar> scalars_of(const Curve& curve) {
  return {static_cast<int64_t>(curve.normal), static_cast<double>(curve.linear),
          static_cast<double>(curve.cubic)};
}

/// Result of `kernel` for tensors that can be packed(), else nothing.
std::optional<at::Tensor> run_packed(DeviceKernel& kernel, const std::vector<at::Tensor>& tensors,
                                     const Curve& curve, const at::Tensor& which = {}) {
  std::vector<at::Tensor> words;
  for (const auto& tensor : tensors) {
    const auto word = packed(tensor);
    if (!word) return std::nullopt;
    words.push_back(*word);
  }
  if (which.defined()) words.push_back(which);
  const auto out = kernel.run(words, scalars_of(curve));
  return out ? std::optional(out->view(at::kBFloat16)) : std::nullopt;
}

std::optional<at::Tensor> gated_on_device(const Curve& curve, const at::Tensor& x,
                                          const at::Tensor& times) {
  if (auto out = gated_by_kernel(curve, x, times, {})) return out;
  static DeviceKernel kernel("convoy_gated", kActivationText),
      packed_kernel("convoy_gated_packed", kActivationText);
  if (auto out = run_packed(packed_kernel, {x, times}, curve)) return out;
  return kernel.run({x, times}, scalars_of(curve));
}

/// Returns x s(x), or with `grad` its gradient.
std::optional<at::Tensor> active_on_device(const Curve& curve, const at::Tensor& x,
                                           const at::Tensor& grad) {
  static DeviceKernel active("convoy_active", kActivationText),
      packed_active("convoy_active_packed", kActivationText),
      back("convoy_active_back", kActivationText),
      packed_back("convoy_active_back_packed", kActivationText);
  const bool backward = grad.defined();
  std::vector<at::Tensor> tensors{x};
  if (backward) tensors.push_back(grad);
  if (auto out = run_packed(backward ? packed_back : packed_active, tensors, curve)) return out;
  return (backward ? back : active).run(tensors, scalars_of(curve));
}

/// Gradients [..., 2, D] of x and of `times`.
std::optional<at::Tensor> gated_backward(const Curve& curve, const at::Tensor& x,
                                         const at::Tensor& times, const at::Tensor& grad) {
  if (auto out = gated_by_kernel(curve, x, times, grad)) return out;
  static DeviceKernel kernel("convoy_gated_back", kActivationText),
      packed_kernel("convoy_gated_back_packed", kActivationText);
  if (x.dim() == 0) return std::nullopt;
  const std::vector<at::Tensor> both{x.unsqueeze(-2), times.unsqueeze(-2), grad.unsqueeze(-2)};
  if (auto out = run_packed(packed_kernel, both, curve, halves_of(x, at::kLong))) return out;
  return kernel.run({both[0], both[1], both[2], halves_of(x, x.scalar_type())}, scalars_of(curve));
}

}  // namespace

std::vector<at::Tensor> activate_on_device(const Curve& curve, const at::Tensor& x,
                                           const at::Tensor& times, const at::Tensor& grad) {
  const bool back = grad.defined();
  if (!times.defined()) {
    const auto out = active_on_device(curve, x, grad);
    if (!out) return {};
    return back ? std::vector{*out, at::Tensor()} : std::vector{*out};
  }
  if (!back) {
    const auto out = gated_on_device(curve, x, times);
    return out ? std::vector{*out} : std::vector<at::Tensor>();
  }
  const auto both = gated_backward(curve, x, times, grad);
  if (!both) return {};
  return {both->select(-2, 0), both->select(-2, 1)};
}

float activation_element(const Curve& curve, float x, float times) {
  return convoy_gated<float>(x, times, curve.normal, curve.linear, curve.cubic);
}

float activation_slope(const Curve& curve, float x, float times, float grad, bool of_times) {
  return convoy_gated_back<float>(x, times, grad, of_times ? 1.0f : 0.0f, curve.normal,
                                  curve.linear, curve.cubic);
}

int64_t packed_activation(const Curve& curve, int64_t x, int64_t times) {
  return convoy_gated_packed<int64_t>(x, times, curve.normal, curve.linear, curve.cubic);
}

int64_t packed_slope(const Curve& curve, int64_t x, int64_t times, int64_t grad, bool of_times) {
  return convoy_gated_back_packed<int64_t>(x, times, grad, of_times, curve.normal, curve.linear,
                                           curve.cubic);
}

int64_t packed_activation(const Curve& curve, int64_t x) {
  return convoy_active_packed<int64_t>(x, curve.normal, curve.linear, curve.cubic);
}

int64_t packed_slope(const Curve& curve, int64_t x, int64_t grad) {
  return convoy_active_back_packed<int64_t>(x, grad, curve.normal, curve.linear, curve.cubic);
}

}  // namespace convoy::nn
