#include "convoy/nn/layers/layers.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/lanes.h"
#include "convoy/nn/node.h"
#include "convoy/nn/shapes_only.h"

namespace convoy::nn {

namespace {

using lanes::count_at;
using lanes::Floats;
using lanes::kLanes;

// Rows whose gradients of the weight are added up before those of others.
constexpr int64_t kPiece = 32;

struct Forward {
  const float *x, *weight;
  float *out, *scales;  // scales: of each row
  int64_t width;
  float epsilon;
};

struct Backward {
  const float *x, *weight, *grad, *scales;
  float *out, *weight_grads;  // weight_grads: zeros, of each piece
  int64_t width;
};

[[gnu::always_inline]] inline float mean(const Floats& sums, int64_t width) {
  return lanes::sum(sums) / static_cast<float>(width);
}

CONVOY_CLONES void forward_rows(const Forward& f, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const float* row = f.x + r * f.width;
    Floats x, weight, sums{};
    for (int64_t i = 0; i < f.width; i += kLanes) {
      lanes::load(row + i, x, count_at(i, f.width));
      sums += x * x;
    }
    const float scale = 1 / std::sqrt(mean(sums, f.width) + f.epsilon);
    f.scales[r] = scale;
    for (int64_t i = 0; i < f.width; i += kLanes) {
      const int64_t count = count_at(i, f.width);
      lanes::load(row + i, x, count);
      lanes::load(f.weight + i, weight, count);
      lanes::store(x * scale * weight, f.out + r * f.width + i, count);
    }
  }
}

CONVOY_CLONES void backward_rows(const Backward& b, int64_t begin, int64_t end,
                                 float* weight_grad) {
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at = r * b.width;
    const float scale = b.scales[r];
    Floats x, weight, grad, total, sums{};
    for (int64_t i = 0; i < b.width; i += kLanes) {
      const int64_t count = count_at(i, b.width);
      lanes::load(b.x + at + i, x, count);
      lanes::load(b.weight + i, weight, count);
      lanes::load(b.grad + at + i, grad, count);
      lanes::load(weight_grad + i, total, count);
      x *= scale;
      sums += grad * weight * x;
      lanes::store(total + grad * x, weight_grad + i, count);
    }
    const float along = mean(sums, b.width);
    for (int64_t i = 0; i < b.width; i += kLanes) {
      const int64_t count = count_at(i, b.width);
      lanes::load(b.x + at + i, x, count);
      lanes::load(b.weight + i, weight, count);
      lanes::load(b.grad + at + i, grad, count);
      lanes::store((grad * weight - x * scale * along) * scale, b.out + at + i, count);
    }
  }
}

/// Result, and the scales that backward reads.
std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& input, const at::Tensor& weight,
                                          double epsilon) {
  if (input.is_cuda()) {
    const auto [out, scale] = at::_fused_rms_norm(input, {input.size(-1)}, weight, epsilon);
    return {out, scale};
  }
  const int64_t width = input.size(-1), rows = input.numel() / std::max<int64_t>(1, width);
  auto out = at::empty_like(input), scales = at::empty({rows}, input.options());
  const Forward f{input.const_data_ptr<float>(),
                  weight.const_data_ptr<float>(),
                  out.mutable_data_ptr<float>(),
                  scales.mutable_data_ptr<float>(),
                  width,
                  static_cast<float>(epsilon)};
  in_parallel(0, rows, kPiece, [&](int64_t begin, int64_t end) { forward_rows(f, begin, end); });
  return {out, scales};
}

/// Returns the gradients of the input and of the weight.
std::pair<at::Tensor, at::Tensor> backward(const at::Tensor& grad, const at::Tensor& input,
                                           const at::Tensor& weight, const at::Tensor& scale) {
  const int64_t width = input.size(-1);
  if (input.is_cuda()) {
    const auto [back, weight_grad] = at::_fused_rms_norm_backward(
        grad.contiguous(), input, {width}, scale, weight, {true, weight.defined()});
    return {back, weight_grad};
  }
  const int64_t rows = scale.numel(), pieces = at::divup(rows, kPiece);
  auto out = at::empty_like(input), weight_grads = at::zeros({pieces, width}, input.options());
  const Backward b{input.const_data_ptr<float>(),
                   weight.const_data_ptr<float>(),
                   grad.const_data_ptr<float>(),
                   scale.const_data_ptr<float>(),
                   out.mutable_data_ptr<float>(),
                   weight_grads.mutable_data_ptr<float>(),
                   width};
  in_parallel(0, pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      backward_rows(b, piece * kPiece, std::min(rows, (piece + 1) * kPiece),
                    b.weight_grads + piece * width);
    }
  });
  return {out, weight_grads.sum(0)};
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const ParamPtr& weight, double epsilon, ReadBy reader,
                    RmsFactor factor) {
  const bool one_more = factor == RmsFactor::OneMore;
  // 16 bits would round the weight away beside the one.
  const auto dtype = one_more ? at::kFloat : norm_dtype(x, weight, reader);
  auto rows = [dtype](const at::Tensor& t) {
    const auto out = t.detach().to(dtype);
    return out.is_cpu() ? out.contiguous() : out;
  };
  internal_check(!weight || weight->value().numel() == x.size(-1), "nn",
                 "a norm's weight is of another width");
  const auto input = rows(x);
  const auto current_factors = [=, options = input.options(), width = x.size(-1)] {
    if (!weight) return input.is_cuda() ? at::Tensor() : at::ones({width}, options);
    const auto out = rows(weight->value());
    return one_more ? out + 1 : out;
  };
  const auto factors = without_grad(current_factors);
  const auto [out, scale] = without_grad([&] { return forward(input, factors, epsilon); });
  // Backward reads the weight again, unless forward made a copy in another dtype, which is kept.
  const bool copy = x.is_cuda() && weight && weight->value().scalar_type() != dtype;
  const auto kept = copy ? factors : at::Tensor();
  return with_backward(out, {x},
                       [=, scale = scale,
                        x_dtype = x.scalar_type()](const at::Tensor& g) -> std::vector<at::Tensor> {
                         auto [back, weight_grad] =
                             backward(rows(g), input, copy ? kept : current_factors(), scale);
                         if (weight) weight->add_grad(weight_grad);
                         return {back.to(x_dtype)};
                       });
}

}  // namespace convoy::nn
