#include "convoy/nn/losses/cross_entropy_device.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "convoy/gpu/kernel.h"
#include "convoy/nn/losses/row_weights.h"
#include "convoy/nn/losses/softmax_kernel.h"
#include "convoy/nn/product.h"
#include "convoy/nn/soft_cap.h"

// Shapes: R rows of scores at once, C items, P of C rounded up.
namespace convoy::nn {

namespace {

constexpr int64_t kBoundary = 64;
// Least probability that a loss is taken from: that of a loss of 87.
constexpr double kLeast = std::numeric_limits<float>::min();

/// Losses [R] fp32 of the `logits` of targets [R], and their slopes in `slopes` [R, P].
at::Tensor losses_of_logarithms(const at::Tensor& scores, const at::Tensor& places,
                                double temperature, at::Tensor& slopes, bool wants_slope) {
  auto wide = scores.to(at::kFloat);
  if (temperature != 1) wide = wide / temperature;
  const auto logarithms = at::log_softmax(wide, 1);
  const auto own = logarithms.gather(1, places);
  if (wants_slope) {
    at::exp_out(slopes, logarithms);
    slopes.scatter_(1, places, own.expm1().to(slopes.scalar_type()));
  }
  return own.neg().squeeze(1);
}

/// Losses of bf16 scores, without another pass in fp32.
at::Tensor losses_of_softmax(const at::Tensor& scores, const at::Tensor& places,
                             at::Tensor& slopes) {
  at::_softmax_out(slopes, scores, 1, /*half_to_float=*/false);
  auto own = slopes.gather(1, places).to(at::kFloat);
  slopes.scatter_(1, places, 0);
  const auto slope = slopes.sum(1, /*keepdim=*/true, at::kFloat).neg_();
  slopes.scatter_(1, places, slope.to(slopes.scalar_type()));
  const auto likely = slope.clamp_min(-0.5).log1p_(), other = own.clamp_min_(kLeast).log_();
  return at::where(slope > -0.5, likely, other).neg_().squeeze(1);
}

int64_t padded(int64_t num_items) {
  return (num_items + kBoundary - 1) / kBoundary * kBoundary;
}

}  // namespace

int64_t device_loss_bytes(int64_t R, int64_t C, at::ScalarType dtype, double temperature,
                          double cap) {
  const auto of_score = static_cast<int64_t>(c10::elementSize(dtype));
  if (gpu::uses_own_kernels()) return R * padded(C) * of_score;
  const bool narrow = dtype == at::kBFloat16 && temperature == 1;
  // Bytes of a score beside its own: softmax, or logarithms in fp32; divided scores before that.
  const int64_t divided = temperature == 1 && dtype == at::kFloat ? 0 : 4;
  // Bytes of a cap's derivative, and of the two tensors that it is computed from.
  const int64_t of_cap = cap == 0 ? 0 : 12;
  return R * padded(C) * (of_score + (narrow ? of_score : 4 + divided) + of_cap);
}

void add_device_loss(const DeviceLoss& loss, int64_t piece, CrossEntropy& out) {
  const int64_t N = loss.input.size(0), C = loss.items.size(0);
  const int64_t P = padded(C);
  const bool wants_slope = loss.h_grad.defined();
  const bool at_once = has_softmax_kernels(loss.input.device(), loss.input.scalar_type(), C);
  const bool narrow =
      !at_once && wants_slope && loss.input.scalar_type() == at::kBFloat16 && loss.temperature == 1;
  const auto buffer = at::empty({std::min(piece, N), P}, loss.input.options());
  const auto softmax = narrow ? at::empty_like(buffer) : buffer;
  for (int64_t begin = 0; begin < N; begin += piece) {
    const int64_t R = std::min(piece, N - begin);
    const auto rows = loss.input.narrow(0, begin, R);
    const auto columns = loss.columns.narrow(0, begin, R), places = columns.unsqueeze(1);
    auto all = buffer.narrow(0, 0, R), scores = all.narrow(1, 0, C);
    at::mm_out(scores, rows, loss.items.t());
    if (loss.bias.defined()) scores.add_(loss.bias);
    auto slopes = softmax.narrow(0, 0, R);
    at::Tensor losses, turn;
    if (at_once) {
      if (out.correct.defined()) out.correct += (scores.argmax(1) == columns).sum();
      losses = cross_entropy_by_kernel(scores, columns.contiguous(), {loss.temperature, loss.cap},
                                       wants_slope);
    } else {
      if (P > C) all.narrow(1, C, P - C).fill_(-HUGE_VAL);
      if (loss.cap != 0) {
        cap_scores(scores, loss.cap);
        if (wants_slope) turn = slope_of_cap(scores, loss.cap);
      }
      if (out.correct.defined()) out.correct += (scores.argmax(1) == columns).sum();
      losses = narrow ? losses_of_softmax(all, places, slopes)
                      : losses_of_logarithms(all, places, loss.temperature, slopes, wants_slope);
    }
    const CrossEntropyOptions counts{.weights = loss.weights};
    add_losses(losses, counts, begin, out);
    if (!wants_slope) continue;
    auto slope = slopes.narrow(1, 0, C);
    if (turn.defined()) slope.mul_(turn);
    auto h_grad = loss.h_grad.narrow(0, begin, R);
    product_into(h_grad, slope, loss.items);
    if (loss.bias_grad.defined()) loss.bias_grad.add_(slope.sum(0, false, at::kFloat));
    if (!loss.table_grad.defined()) continue;
    auto table_grad = loss.table_grad;
    const auto weighted = weighted_rows(rows, counts, begin);
    const bool adds = !loss.fresh || begin > 0;
    if (adds && slope.scalar_type() == table_grad.scalar_type()) {
      table_grad.addmm_(slope.t(), weighted);
    } else {
      product_into(table_grad, slope.t(), weighted, adds);
    }
  }
}

}  // namespace convoy::nn
