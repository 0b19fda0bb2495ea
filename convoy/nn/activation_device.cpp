#include "convoy/nn/activation_device.h"

#include <ATen/ATen.h>

#include <cmath>

#include "convoy/nn/device_kernel.h"

namespace convoy::nn {

namespace {

// `which`: 0 for the gradient of x, 1 for that of `times`. Cubes stay finite, see activation.cpp.
// clang-format off
CONVOY_HOST_AND_GPU(kActivationText,
float convoy_share(float x, long long normal, float linear, float cubic, float* slope) {
  if (normal != 0) {
    *slope = 0.398942280f * expf(-0.5f * x * x);
    return 0.5f * erfcf(-0.707106781f * x);
  }
  float square = x * x;
  square = square > 1e30f ? 1e30f : square;
  float at = x * (linear + cubic * square);
  float e = expf(at < 0 ? at : -at);
  float close = 1 / (1 + e);
  float far_off = e * close;
  *slope = close * far_off * (linear + 3 * cubic * square);
  return at < 0 ? far_off : close;
}
template <typename T>
T convoy_gated(T x_in, T times, long long normal, double linear, double cubic) {
  float x = (float)x_in;
  float slope;
  float share = convoy_share(x, normal, (float)linear, (float)cubic, &slope);
  return (T)(x * share * (float)times);
}
template <typename T>
T convoy_active(T x_in, long long normal, double linear, double cubic) {
  float x = (float)x_in;
  float slope;
  return (T)(x * convoy_share(x, normal, (float)linear, (float)cubic, &slope));
}
template <typename T>
T convoy_gated_back(T x_in, T times, T grad, T which, long long normal, double linear,
                    double cubic) {
  float x = (float)x_in;
  float slope;
  float share = convoy_share(x, normal, (float)linear, (float)cubic, &slope);
  float factor = (float)which == 0 ? (float)times * (share + x * slope) : x * share;
  return (T)((float)grad * factor);
}
template <typename T>
T convoy_active_back(T x_in, T grad, long long normal, double linear, double cubic) {
  float x = (float)x_in;
  float slope;
  float share = convoy_share(x, normal, (float)linear, (float)cubic, &slope);
  return (T)((float)grad * (share + x * slope));
}
)
// clang-format on

std::vector<c10::Scalar> scalars_of(const Curve& curve) {
  return {static_cast<int64_t>(curve.normal), static_cast<double>(curve.linear),
          static_cast<double>(curve.cubic)};
}

}  // namespace

std::vector<at::Tensor> activate_on_device(const Curve& curve, const at::Tensor& x,
                                           const at::Tensor& times, const at::Tensor& grad) {
  static DeviceKernel gated("convoy_gated", kActivationText),
      active("convoy_active", kActivationText), gated_back("convoy_gated_back", kActivationText),
      active_back("convoy_active_back", kActivationText);
  const auto scalars = scalars_of(curve);
  const bool back = grad.defined(), alone = !times.defined();
  if (alone) {
    const auto out = back ? active_back.run({x, grad}, scalars) : active.run({x}, scalars);
    if (!out) return {};
    return back ? std::vector{*out, at::Tensor()} : std::vector{*out};
  }
  if (!back) {
    const auto out = gated.run({x, times}, scalars);
    return out ? std::vector{*out} : std::vector<at::Tensor>();
  }
  if (x.dim() == 0) return {};
  const auto both = gated_back.run(
      {x.unsqueeze(-2), times.unsqueeze(-2), grad.unsqueeze(-2), halves_of(x, x.scalar_type())},
      scalars);
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

}  // namespace convoy::nn
