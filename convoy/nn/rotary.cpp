#include "convoy/nn/rotary.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>

#include "convoy/base/error.h"
#include "convoy/nn/node.h"

namespace convoy::nn {

namespace {

constexpr double kTurn = 2 * std::numbers::pi;

/// base^(2i / width), i = 0..width/2-1.
at::Tensor wavelengths(double base, int64_t width) {
  return at::pow(base, at::arange(0, width, 2, at::kFloat) / static_cast<double>(width));
}

at::Tensor dynamic_frequencies(const RotaryOptions& o, int64_t length, int64_t width) {
  const auto limit = static_cast<double>(o.max_length);
  const double longest = std::max(limit, static_cast<double>(length));
  const auto dims = static_cast<double>(width);
  const double base =
      o.theta * std::pow(o.factor * longest / limit - (o.factor - 1), dims / (dims - 2));
  return 1 / wavelengths(base, width);
}

at::Tensor llama3_frequencies(const RotaryOptions& o, int64_t width) {
  auto plain = 1 / wavelengths(o.theta, width);
  const auto original = static_cast<double>(o.original_length);
  auto wavelength = kTurn / plain;
  auto is_long = wavelength > original / o.low_freq_factor;
  auto is_short = wavelength < original / o.high_freq_factor;
  auto part =
      (original / wavelength - o.low_freq_factor) / (o.high_freq_factor - o.low_freq_factor);
  auto between = (1 - part) * plain / o.factor + part * plain;
  return at::where(is_long, plain / o.factor, at::where(is_short, plain, between));
}

/// Peng et al., "YaRN: efficient context window extension of large language models", 2023.
at::Tensor yarn_frequencies(const RotaryOptions& o, int64_t width) {
  const auto dims = static_cast<double>(width);
  auto bound = [&](double turns) {
    return dims * std::log(static_cast<double>(o.original_length) / (turns * kTurn)) /
           (2 * std::log(o.theta));
  };
  double low = bound(o.beta_fast), high = bound(o.beta_slow);
  if (o.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high) high += 0.001;
  auto ramp = ((at::arange(width / 2, at::kFloat) - low) / (high - low)).clamp(0, 1);
  auto lengths = wavelengths(o.theta, width);
  auto kept = 1 - ramp;
  return 1 / (o.factor * lengths) * (1 - kept) + 1 / lengths * kept;
}

double yarn_attention_factor(const RotaryOptions& o) {
  if (o.attention_factor != 0) return o.attention_factor;
  auto scale = [&](double mscale) {
    return o.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(o.factor) + 1.0;
  };
  if (o.mscale != 0 && o.mscale_all_dim != 0) return scale(o.mscale) / scale(o.mscale_all_dim);
  return scale(1);
}

at::Tensor frequencies(const RotaryOptions& o, int64_t length, int64_t width) {
  if (o.type == "default") return 1 / wavelengths(o.theta, width);
  if (o.type == "linear") return 1 / wavelengths(o.theta, width) / o.factor;
  if (o.type == "dynamic") return dynamic_frequencies(o, length, width);
  if (o.type == "llama3") return llama3_frequencies(o, width);
  internal_check(o.type == "yarn", "nn", "rotary type {}", o.type);
  return yarn_frequencies(o, width);
}

at::Tensor turned(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t half = x.size(3) / 2;
  auto low = x.narrow(3, 0, half), high = x.narrow(3, half, half);
  return at::cat({low * cos - high * sin, high * cos + low * sin}, 3).to(x.scalar_type());
}

}  // namespace

RotaryTables rotary_tables(const RotaryOptions& options, const at::Tensor& positions,
                           int64_t length, int64_t width) {
  auto host = positions.to(at::kCPU, at::kFloat).unsqueeze(-1);
  auto angles = host * frequencies(options, length, width);
  const double scale = options.type == "yarn" ? yarn_attention_factor(options) : 1;
  const auto device = positions.device();
  return {(angles.cos() * scale).to(device), (angles.sin() * scale).to(device)};
}

RotaryTables rotary_tables(const RotaryOptions& options, int64_t length, int64_t width,
                           at::Device device) {
  return rotary_tables(options, at::arange(length, device), length, width);
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const auto out = without_grad([&] { return turned(x.detach(), cos, sin); });
  return with_backward(out, {x}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    return {turned(grad, cos, -sin)};
  });
}

}  // namespace convoy::nn
