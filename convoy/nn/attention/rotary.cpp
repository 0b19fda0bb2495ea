#include "convoy/nn/attention/rotary.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <tuple>

#include "convoy/base/error.h"
#include "convoy/base/lanes.h"
#include "convoy/comm/device.h"
#include "convoy/nn/attention/rotary_device.h"
#include "convoy/nn/node.h"
#include "convoy/nn/shapes_only.h"
#include "convoy/nn/side_by_side.h"

namespace convoy::nn {

namespace {

constexpr double kTurn = 2 * std::numbers::pi;

/// Returns base^(2i / width) for i = 0..width/2-1.
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

/// Frequencies of YaRN (Peng et al., "YaRN: efficient context window extension of large language
/// models", 2023).
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

at::Tensor longrope_frequencies(const RotaryOptions& o, int64_t length, int64_t width) {
  const auto& factors = length > o.max_length ? o.long_factors : o.short_factors;
  return 1 / (at::tensor(factors, at::kFloat) * wavelengths(o.theta, width));
}

double longrope_attention_factor(const RotaryOptions& o) {
  if (o.attention_factor != 0) return o.attention_factor;
  if (o.factor <= 1) return 1;
  return std::sqrt(1 + std::log(o.factor) / std::log(static_cast<double>(o.original_length)));
}

/// Wavelengths are those of the whole width; pairs behind the part that turns stay.
at::Tensor proportional_frequencies(const RotaryOptions& o, int64_t width) {
  auto out = 1 / wavelengths(o.theta, width) / o.factor;
  const auto turning = static_cast<int64_t>(o.proportion * static_cast<double>(width)) / 2;
  out.narrow(0, turning, width / 2 - turning).zero_();
  return out;
}

at::Tensor frequencies(const RotaryOptions& o, int64_t length, int64_t width) {
  if (o.type == "default") return 1 / wavelengths(o.theta, width);
  if (o.type == "linear") return 1 / wavelengths(o.theta, width) / o.factor;
  if (o.type == "dynamic") return dynamic_frequencies(o, length, width);
  if (o.type == "llama3") return llama3_frequencies(o, width);
  if (o.type == "longrope") return longrope_frequencies(o, length, width);
  if (o.type == "proportional") return proportional_frequencies(o, width);
  internal_check(o.type == "yarn", "nn", "rotary type {}", o.type);
  return yarn_frequencies(o, width);
}

/// Rotates rows of E numbers, the first half of each against the second.
template <class T>
struct Turn {
  const T* x;
  T* out;
  const float *cos, *sin;  // of each position of a batch row, or of all batch rows
  int64_t H, num_positions, half, table_stride;
  std::array<int64_t, 3> strides;  // of x: batch rows, heads, positions
  float sign;
};

template <class T>
[[gnu::always_inline]] inline void turn_rows(const Turn<T>& turn, int64_t begin, int64_t end) {
  const int64_t half = turn.half;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t t = row % turn.num_positions, outer = row / turn.num_positions;
    const int64_t b = outer / turn.H, h = outer % turn.H;
    const auto [by_row, by_head, by_position] = turn.strides;
    const T* x = turn.x + b * by_row + h * by_head + t * by_position;
    T* out = turn.out + row * 2 * half;
    const int64_t table = b * turn.table_stride + t * half;
    for (int64_t i = 0; i < half; i += lanes::kLanes) {
      const int64_t count = lanes::count_at(i, half);
      lanes::Floats low, high, cos, sin;
      lanes::load(x + i, low, count);
      lanes::load(x + half + i, high, count);
      lanes::load(turn.cos + table + i, cos, count);
      lanes::load(turn.sin + table + i, sin, count);
      sin *= turn.sign;
      lanes::store(low * cos - high * sin, out + i, count);
      lanes::store(high * cos + low * sin, out + half + i, count);
    }
  }
}

CONVOY_CLONES void run(const Turn<float>& turn, int64_t begin, int64_t end) {
  turn_rows(turn, begin, end);
}

CONVOY_CLONES void run(const Turn<lanes::Bf16>& turn, int64_t begin, int64_t end) {
  turn_rows(turn, begin, end);
}

template <class T>
at::Tensor turned_here(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                       float sign) {
  auto out = at::empty(x.sizes(), x.options());
  const int64_t H = x.size(1), length = x.size(2), half = x.size(3) / 2;
  const Turn<T> turn{static_cast<const T*>(x.const_data_ptr()),
                     static_cast<T*>(out.mutable_data_ptr()),
                     cos.const_data_ptr<float>(),
                     sin.const_data_ptr<float>(),
                     H,
                     length,
                     half,
                     cos.dim() == 2 || cos.size(0) == 1 ? 0 : length * half,
                     {x.stride(0), x.stride(1), x.stride(2)},
                     sign};
  in_parallel(0, x.size(0) * H * length, 256,
              [&](int64_t begin, int64_t end) { run(turn, begin, end); });
  return out;
}

/// Rotated x; with `sign` -1 by the inverse rotation.
at::Tensor turned(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, float sign) {
  const auto dtype = x.scalar_type();
  const bool shaped = cos.dim() == 2 || (cos.dim() == 4 && cos.size(1) == 1 &&
                                         (cos.size(0) == 1 || cos.size(0) == x.size(0)));
  const bool whole = shaped && cos.is_contiguous() && sin.is_contiguous() &&
                     cos.sizes() == sin.sizes() && cos.size(-2) == x.size(2) &&
                     2 * cos.size(-1) == x.size(3) && cos.scalar_type() == at::kFloat;
  if (x.is_cpu() && x.stride(3) == 1 && whole) {
    if (dtype == at::kFloat) return turned_here<float>(x, cos, sin, sign);
    if (dtype == at::kBFloat16) return turned_here<lanes::Bf16>(x, cos, sin, sign);
  }
  if (x.is_cuda() && whole) {
    if (const auto out = turn_on_device(x, cos, sin, sign)) return *out;
  }
  const int64_t half = x.size(3) / 2;
  auto low = x.narrow(3, 0, half), high = x.narrow(3, half, half), signed_sin = sin * sign;
  return at::cat({low * cos - high * signed_sin, high * cos + low * signed_sin}, 3).to(dtype);
}

}  // namespace

RotaryTables rotary_tables(const RotaryOptions& options, const at::Tensor& positions,
                           int64_t length, int64_t width) {
  auto host = comm::download(positions).to(at::kFloat).unsqueeze(-1);
  auto angles = host * frequencies(options, length, width);
  const double scale = options.type == "yarn"       ? yarn_attention_factor(options)
                       : options.type == "longrope" ? longrope_attention_factor(options)
                                                    : 1;
  const auto device = positions.device();
  return {(angles.cos() * scale).to(device), (angles.sin() * scale).to(device)};
}

RotaryTables rotary_tables(const RotaryOptions& options, int64_t length, int64_t width,
                           at::Device device) {
  const auto tables = rotary_tables(options, at::arange(length), length, width);
  return {comm::upload(tables.cos, device), comm::upload(tables.sin, device)};
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const auto out = without_grad([&] { return turned(x.detach(), cos, sin, 1); });
  return with_backward(out, {x}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    return {turned(grad, cos, sin, -1)};
  });
}

std::vector<at::Tensor> rotate_all(const std::vector<at::Tensor>& xs, const at::Tensor& cos,
                                   const at::Tensor& sin) {
  constexpr int64_t kHeads = 1;
  const auto together = xs.front().is_cuda() ? side_by_side(xs, kHeads) : at::Tensor();
  std::vector<at::Tensor> out(xs.size());
  if (!together.defined()) {
    // Backward comes to the first before the others.
    for (size_t i = xs.size(); i-- > 0;) out[i] = rotate(xs[i], cos, sin);
    return out;
  }
  out = without_grad([&] {
    return turned(together, cos, sin, 1).split_with_sizes(lengths_of(xs, kHeads), kHeads);
  });
  return with_backward_of_all(out, xs, [=](const std::vector<at::Tensor>& grads) {
    std::vector<at::Tensor> back(grads.size());
    for (size_t i = 0; i < grads.size(); ++i) {
      if (grads[i].defined()) back[i] = turned(grads[i], cos, sin, -1);
    }
    return back;
  });
}

}  // namespace convoy::nn
