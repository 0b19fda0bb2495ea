#include "convoy/nn/losses/cross_entropy.h"

#include <ATen/ATen.h>

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "convoy/base/lanes.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/losses/cross_entropy_device.h"
#include "convoy/nn/losses/row_weights.h"
#include "convoy/nn/losses/vocab_parallel_cross_entropy.h"
#include "convoy/nn/node.h"
#include "convoy/nn/root_gradient.h"
#include "convoy/nn/shapes_only.h"
#include "convoy/nn/skinny_gemm.h"
#include "convoy/nn/soft_cap.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::nn {

namespace {

// Rows of scores in memory at once: enough for the products to be worth it, not more than the
// large bound, and not fewer than fill the small one.
constexpr int64_t kScoreRows = 512;
constexpr int64_t kSmallBytes = 2 << 20, kLargeBytes = 128 << 20;
// A GPU wants large products; it holds the scores, their logarithms and what becomes the softmax.
constexpr int64_t kDeviceBytes = 512 << 20;

using lanes::Bf16;
using lanes::Floats;
using lanes::kLanes;

/// Replaces a row of `count` scores by exp(score / temperature - largest). Returns its
/// cross-entropy at `column`, and one over the row's sum in `scale`.
CONVOY_CLONES float loss_of_row(float* row, int64_t count, int64_t column,
                                float inverse_temperature, float* scale) {
  const float own = row[column] * inverse_temperature;
  Floats x, highest = Floats{} - HUGE_VALF, sums{};
  lanes::each(0, count, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
    lanes::load(row + i, x, n, -HUGE_VALF);
    highest = x > highest ? x : highest;
  });
  const float top = lanes::largest(highest) * inverse_temperature;
  double sum = 0;
  lanes::each(0, count, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
    lanes::load(row + i, x, n, -HUGE_VALF);
    x = x * inverse_temperature - top;
    lanes::exponentiate(x);
    lanes::store(x, row + i, n);
    sums += x;
  });
  for (int lane = 0; lane < kLanes; ++lane) sum += sums[lane];

  *scale = static_cast<float>(1 / sum);
  return static_cast<float>(std::log(sum)) + (top - own);
}

/// Replaces a row of bf16 scores by the loss's gradient, softmax minus one-hot, which is fp32 until
/// it is rounded. Returns the loss, as loss_of_row() does. `values`: memory for the row.
CONVOY_CLONES float slope_of_row(Bf16* row, float* values, int64_t count, int64_t column,
                                 float inverse_temperature) {
  Floats x;
  for (int64_t i = 0; i < count; i += kLanes) {
    lanes::load(row + i, x, lanes::count_at(i, count));
    lanes::store(x, values + i, lanes::count_at(i, count));
  }
  float scale = 0;
  const float loss = loss_of_row(values, count, column, inverse_temperature, &scale);
  values[column] -= 1 / scale;
  for (int64_t i = 0; i < count; i += kLanes) {
    lanes::load(values + i, x, lanes::count_at(i, count));
    lanes::store(x * scale, row + i, lanes::count_at(i, count));
  }
  return loss;
}

/// Losses of rows of bf16 scores, which are replaced by their gradients.
at::Tensor host_slopes(at::Tensor& scores, const at::Tensor& columns, double temperature) {
  const int64_t rows = scores.size(0), count = scores.size(1);
  auto losses = at::empty({rows}, at::kFloat);
  auto* row = static_cast<Bf16*>(scores.mutable_data_ptr());
  auto* loss = losses.data_ptr<float>();
  const auto held = columns.contiguous();
  const auto* column = held.const_data_ptr<int64_t>();
  const auto inverse = static_cast<float>(1 / temperature);
  in_parallel(0, rows, 1 + 16384 / count, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(count));
    for (int64_t i = begin; i < end; ++i) {
      loss[i] = slope_of_row(row + i * count, values.data(), count, column[i], inverse);
    }
  });
  return losses;
}

SoftmaxLoss host_loss(at::Tensor& scores, const at::Tensor& columns, double temperature) {
  const int64_t rows = scores.size(0), count = scores.size(1);
  SoftmaxLoss out{at::empty({rows}, scores.options()), at::empty({rows}, scores.options())};
  auto* values = scores.data_ptr<float>();
  auto* loss = out.losses.data_ptr<float>();
  auto* scale = out.scales.data_ptr<float>();
  auto held = columns.contiguous();
  const auto* column = held.data_ptr<int64_t>();
  const auto inverse = static_cast<float>(1 / temperature);
  in_parallel(0, rows, 1 + 16384 / count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      loss[i] = loss_of_row(values + i * count, count, column[i], inverse, scale + i);
    }
  });
  return out;
}

/// Number of rows of a GPU that each row here stands for, while a ScoresOfGpu exists in this
/// thread.
thread_local double rows_on_gpu = 0;

/// Memory for `piece` rows of scores of `num_rows`. Where it stands for a GPU's it is larger, and
/// the rest is never touched.
at::Tensor score_buffer(int64_t piece, int64_t num_rows, int64_t num_items, double temperature,
                        double cap, const at::TensorOptions& options) {
  const int64_t rows = std::min(piece, num_rows);
  if (rows_on_gpu == 0) return at::empty({rows, num_items}, options);
  const auto dtype = c10::typeMetaToScalarType(options.dtype());
  const auto all = static_cast<int64_t>(std::ceil(static_cast<double>(num_rows) * rows_on_gpu));
  const auto bytes = device_loss_bytes(even_score_rows(all, num_items, at::kCUDA), num_items, dtype,
                                       temperature, cap);
  const auto scores = rows * num_items;
  const auto length = bytes / static_cast<int64_t>(c10::elementSize(dtype));
  return at::empty({std::max(length, scores)}, options)
      .narrow(0, 0, scores)
      .view({rows, num_items});
}

/// Number of rows of fp32 scores that fit the caches of a device's threads.
int64_t rows_in_cache(int64_t num_items, at::Device device, int64_t rows) {
  if (!device.is_cpu()) return rows;
  const int64_t row_bytes = num_items * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(kSmallBytes / 2 / row_bytes, 1, rows) * at::get_num_threads();
}

/// Number of rows of scores [R, C] of the host whose best column is `columns`' one. Many scores of
/// 16 bits are equal that prediction, which computes them in fp32, tells apart: those that may be
/// the best are computed again. (On GPUs, and where ranks share the table, equal ones stay equal.)
at::Tensor count_best(const at::Tensor& scores, const at::Tensor& columns, const at::Tensor& h,
                      const at::Tensor& items, const at::Tensor& bias, double cap) {
  if (scores.scalar_type() == at::kFloat || scores.size(1) == 0) {
    return (scores.argmax(1) == columns).sum();
  }
  constexpr double kRoundings = 1.0 / 64;  // more than those of a product, a bias and a cap
  const auto best = std::get<0>(scores.max(1)).to(at::kFloat);
  const auto own = scores.gather(1, columns.unsqueeze(1)).squeeze(1).to(at::kFloat);
  const double biased = bias.defined() ? bias.abs().max().item<double>() : 0;        // on the host
  const auto may_be = (own >= best - (best.abs() + biased) * kRoundings).nonzero();  // on the host
  const auto places = may_be.squeeze(1);
  const int64_t few = rows_in_cache(scores.size(1), scores.device(), scores.size(0));
  auto out = at::zeros({}, columns.options());
  for (int64_t begin = 0; begin < places.size(0); begin += few) {
    const auto here = places.narrow(0, begin, std::min(few, places.size(0) - begin));
    auto exact = product_of_rows(h.index_select(0, here).to(at::kFloat), items.t());
    if (bias.defined()) exact.add_(bias);
    if (cap != 0) cap_scores(exact, cap);
    out += (exact.argmax(1) == columns.index_select(0, here)).sum();
  }
  return out;
}

}  // namespace

ScoresOfGpu::ScoresOfGpu(double times) : before_(std::exchange(rows_on_gpu, times)) {}

ScoresOfGpu::~ScoresOfGpu() {
  rows_on_gpu = before_;
}

int64_t score_rows_at_once(int64_t num_items, at::Device device) {
  const int64_t row_bytes = num_items * static_cast<int64_t>(sizeof(float));
  if (!device.is_cpu()) return std::max<int64_t>(1, kDeviceBytes / row_bytes);
  return std::max<int64_t>(
      1, std::clamp(kScoreRows, kSmallBytes / row_bytes, kLargeBytes / row_bytes));
}

int64_t even_score_rows(int64_t num_rows, int64_t num_items, at::Device device) {
  constexpr int64_t kTile = 128;
  const int64_t most =
      std::min(score_rows_at_once(num_items, device), std::max<int64_t>(1, num_rows));
  if (device.is_cpu()) return most;
  const int64_t pieces = (num_rows + most - 1) / most;
  if (pieces <= 1) return most;
  const int64_t even = (num_rows + pieces - 1) / pieces;
  return std::min(most, (even + kTile - 1) / kTile * kTile);
}

SoftmaxLoss softmax_loss(at::Tensor scores, const at::Tensor& columns, double temperature) {
  at::NoGradGuard no_grad;
  if (scores.device().is_cpu()) return host_loss(scores, columns, temperature);
  auto log_probabilities = at::log_softmax(scores.div_(temperature), 1);
  at::exp_out(scores, log_probabilities);
  return {log_probabilities.gather(1, columns.unsqueeze(1)).squeeze(1).neg(),
          at::ones({scores.size(0)}, scores.options())};
}

CrossEntropy cross_entropy(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
                           const CrossEntropyOptions& options) {
  if (is_cut(table, 0, options.ranks.group()))
    return vocab_parallel_cross_entropy(h, table, targets, options);
  const int64_t first_id = options.first_id;
  const int64_t num_items = table->shape()[0] - first_id;
  const auto table_dtype = table->value().scalar_type();
  const auto dtype = table_dtype == at::kHalf ? at::kFloat : table_dtype;
  const bool wants_slope = at::GradMode::is_enabled();
  const auto& bias = options.bias;
  check_weights(options);
  CrossEntropy out;
  at::Tensor h_grad, table_grad, bias_grad;
  const bool frozen = !table->spec().trainable;
  // The gradient must be fp32 to be written straight: another dtype would need a copy.
  const bool straight = wants_slope && !table->grad_written() &&
                        (frozen || table->grad().scalar_type() == at::kFloat);
  {
    at::NoGradGuard no_grad;
    auto input = h.detach().to(dtype);
    auto items = table->value().narrow(0, first_id, num_items).to(dtype);
    auto columns = targets - first_id;
    const int64_t num_rows = h.size(0);
    const int64_t piece = even_score_rows(num_rows, num_items, h.device());
    auto fp32 = input.options().dtype(at::kFloat);
    out.loss = at::zeros({}, fp32);
    if (wants_slope) {
      h_grad = at::empty({num_rows, input.size(1)}, fp32);
      if (straight) {
        table->make_grad_in_parts();  // backward scales it
        table->add_grad(at::kFloat, [&](at::Tensor& main_grad, bool) {
          main_grad.narrow(0, 0, first_id).zero_();
          table_grad = main_grad.narrow(0, first_id, num_items);
          if (num_rows == 0) table_grad.zero_();
        });
      } else if (!frozen) {
        table_grad = at::zeros({num_items, input.size(1)}, fp32);
      }
      if (bias) bias_grad = at::zeros({num_items}, fp32);
    }
    if (options.count_correct) out.correct = at::zeros({}, columns.options());
    if (options.keep_losses) out.losses = at::empty({num_rows}, fp32);
    if (input.is_cuda()) {
      const auto part = bias ? bias->value().narrow(0, first_id, num_items) : at::Tensor();
      add_device_loss({input, items, part, columns, options.temperature, options.cap, h_grad,
                       table_grad, bias_grad, straight, options.weights},
                      piece, out);
    }
    const int64_t host_rows = input.is_cuda() ? 0 : num_rows;
    const auto buffer = score_buffer(piece, host_rows, num_items, options.temperature, options.cap,
                                     input.options());
    for (int64_t begin = 0; begin < host_rows; begin += piece) {
      const int64_t rows = std::min(piece, num_rows - begin);
      auto part = input.narrow(0, begin, rows);
      auto scores = buffer.narrow(0, 0, rows);
      at::mm_out(scores, part, items.t());
      if (bias) scores.add_(bias->value().narrow(0, first_id, num_items));
      if (options.cap != 0) cap_scores(scores, options.cap);
      auto targets_here = columns.narrow(0, begin, rows);
      if (options.count_correct) {
        const auto added = bias ? bias->value().narrow(0, first_id, num_items) : at::Tensor();
        out.correct += count_best(scores, targets_here, part, items, added, options.cap);
      }
      // Half precision cannot tell a sure softmax from one: its slope is made in fp32, a few rows
      // at a time, and rounded into the scores' place.
      // The slope of capped scores is made in fp32, too.
      const bool half = dtype != at::kFloat || options.cap != 0;
      const bool at_once = scores.scalar_type() == at::kBFloat16 && wants_slope && !bias &&
                           options.cap == 0 && scores.is_cpu();
      const int64_t few = half ? rows_in_cache(num_items, h.device(), rows) : rows;
      auto losses = at_once ? host_slopes(scores, targets_here, options.temperature)
                            : at::empty({rows}, fp32);
      auto scales = at::empty({rows}, fp32);
      for (int64_t row = at_once ? rows : 0; row < rows; row += few) {
        const int64_t count = std::min(few, rows - row);
        auto columns_here = targets_here.narrow(0, row, count);
        auto exponentials = scores.narrow(0, row, count).to(at::kFloat);
        at::Tensor turn;
        if (options.cap != 0 && wants_slope) turn = slope_of_cap(exponentials, options.cap);
        auto softmax = softmax_loss(exponentials, columns_here, options.temperature);
        losses.narrow(0, row, count).copy_(softmax.losses);
        scales.narrow(0, row, count).copy_(softmax.scales);
        if (!wants_slope) continue;
        if (bias) {
          bias_grad.addmv_(exponentials.t(), softmax.scales);
          bias_grad.index_add_(0, columns_here, at::ones({count}, fp32), -1);
        }
        if (!half) continue;
        exponentials.mul_(softmax.scales.unsqueeze(1))
            .scatter_add_(1, columns_here.unsqueeze(1), at::full({count, 1}, -1, fp32));
        if (turn.defined()) exponentials.mul_(turn);
        scores.narrow(0, row, count).copy_(exponentials);
      }
      add_losses(losses, options, begin, out);
      if (!wants_slope) continue;
      part = weighted_rows(part, options, begin);  // the table's gradient is a sum over rows
      auto back = h_grad.narrow(0, begin, rows);
      const bool writes = straight && begin == 0;
      if (half) {
        back.copy_(at::mm(scores, items));
        if (table_grad.defined()) add_product(table_grad, scores, part, writes);
        continue;
      }
      // The slope is softmax minus one-hot: scales and ones are taken to the narrow side.
      auto scale = scales.unsqueeze(1);
      at::mm_out(back, scores, items);
      back.mul_(scale).sub_(items.index_select(0, targets_here));
      if (!table_grad.defined()) continue;
      auto scaled = part * scale;
      writes ? at::mm_out(table_grad, scores.t(), scaled) : table_grad.addmm_(scores.t(), scaled);
      add_rows(table_grad, targets_here, part, -1);
    }
  }
  if (wants_slope && options.weights.defined()) {
    without_grad([&] { return h_grad.mul_(options.weights.unsqueeze(1)); });
  }
  const auto h_dtype = h.scalar_type();
  auto backward = [=](const at::Tensor& grad) mutable -> std::vector<at::Tensor> {
    // Multiplies only for a scaled loss, as it takes a pass over the table.
    if (options.temperature != 1 || !is_known_one(grad)) {
      const auto scale = grad / options.temperature;
      for (auto* each : {&table_grad, &bias_grad, &h_grad}) {
        if (each->defined()) each->mul_(scale);
      }
    }
    if (table_grad.defined()) {
      if (!straight) {
        table->add_to_grad(
            [&](at::Tensor& to) { to.narrow(0, first_id, num_items).add_(table_grad); });
      }
    }
    if (bias) {
      bias->add_to_grad([&](at::Tensor& to) { to.narrow(0, first_id, num_items).add_(bias_grad); });
    }
    return {h_grad.to(h_dtype)};
  };
  out.loss = with_backward(out.loss, {h}, backward);
  return out;
}

}  // namespace convoy::nn
