#pragma once

#include <cmath>

#include "convoy/nn/device_kernel.h"

// Functions of activations, for the host and as a text for GPUs.
namespace convoy::nn {

// `which`: 0 for the gradient of x, 1 for that of `times`. Cubes stay finite, see activation.cpp.
// T of what is packed() is int64, and precision beyond that of bf16 would be lost on it.
// clang-format off
CONVOY_HOST_AND_GPU(kActivationText,
inline float convoy_square(float x) {
  float square = x * x;
  return square > 1e30f ? 1e30f : square;
}
inline float convoy_sigmoid(float at, float e, float close, float rise, float* slope) {
  float far_off = e * close;
  *slope = close * far_off * rise;
  return at < 0 ? far_off : close;
}
inline float convoy_share(float x, long long normal, float linear, float cubic, float* slope) {
  if (normal != 0) {
    *slope = 0.398942280f * expf(-0.5f * x * x);
    return 0.5f * erfcf(-0.707106781f * x);
  }
  float square = convoy_square(x);
  float at = x * (linear + cubic * square);
  float e = expf(at < 0 ? at : -at);
  return convoy_sigmoid(at, e, 1 / (1 + e), linear + 3 * cubic * square, slope);
}
template <typename T>
T convoy_gated(T x_in, T times, long long normal, double linear, double cubic) {
  float x = (float)x_in;
  float slope;
  float share = convoy_share(x, normal, (float)linear, (float)cubic, &slope);
  return (T)(x * share * (float)times);
}
inline float convoy_fast_share(float x, long long normal, float linear, float cubic,
                               float* slope) {
  if (normal != 0) return convoy_share(x, normal, linear, cubic, slope);
  float square = convoy_square(x);
  float at = x * (linear + cubic * square);
  float e = convoy_fast_exp(at < 0 ? at : -at);
  float close = convoy_fast_reciprocal(1 + e);
  return convoy_sigmoid(at, e, close, linear + 3 * cubic * square, slope);
}
template <typename T>
T convoy_gated_packed(T x_in, T times, long long normal, double linear, double cubic) {
  unsigned long long out = 0;
  for (int i = 0; i < 4; ++i) {
    float x = convoy_part((unsigned long long)x_in, i);
    float slope;
    float share = convoy_fast_share(x, normal, (float)linear, (float)cubic, &slope);
    out |= convoy_packed(x * share * convoy_part((unsigned long long)times, i), i);
  }
  return (T)out;
}
template <typename T>
T convoy_gated_back_packed(T x_in, T times, T grad, T which, long long normal, double linear,
                           double cubic) {
  unsigned long long out = 0;
  for (int i = 0; i < 4; ++i) {
    float x = convoy_part((unsigned long long)x_in, i);
    float slope;
    float share = convoy_fast_share(x, normal, (float)linear, (float)cubic, &slope);
    float gate = convoy_part((unsigned long long)times, i);
    float factor = which == 0 ? gate * (share + x * slope) : x * share;
    out |= convoy_packed(convoy_part((unsigned long long)grad, i) * factor, i);
  }
  return (T)out;
}
template <typename T>
T convoy_active(T x_in, long long normal, double linear, double cubic) {
  float x = (float)x_in;
  float slope;
  return (T)(x * convoy_share(x, normal, (float)linear, (float)cubic, &slope));
}
template <typename T>
T convoy_active_packed(T x_in, long long normal, double linear, double cubic) {
  unsigned long long out = 0;
  for (int i = 0; i < 4; ++i) {
    float x = convoy_part((unsigned long long)x_in, i);
    float slope;
    float share = convoy_fast_share(x, normal, (float)linear, (float)cubic, &slope);
    out |= convoy_packed(x * share, i);
  }
  return (T)out;
}
template <typename T>
T convoy_active_back_packed(T x_in, T grad, long long normal, double linear, double cubic) {
  unsigned long long out = 0;
  for (int i = 0; i < 4; ++i) {
    float x = convoy_part((unsigned long long)x_in, i);
    float slope;
    float share = convoy_fast_share(x, normal, (float)linear, (float)cubic, &slope);
    float factor = share + x * slope;
    out |= convoy_packed(convoy_part((unsigned long long)grad, i) * factor, i);
  }
  return (T)out;
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

}  // namespace convoy::nn
