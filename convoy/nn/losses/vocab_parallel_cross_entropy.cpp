#include "convoy/nn/losses/vocab_parallel_cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "convoy/nn/cast.h"
#include "convoy/nn/losses/row_weights.h"
#include "convoy/nn/losses/softmax_pass.h"
#include "convoy/nn/node.h"
#include "convoy/nn/product.h"
#include "convoy/nn/root_gradient.h"
#include "convoy/nn/soft_cap.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

// Shapes: N positions with a target, R of them at once, D model width, C ids that are here, T
// ranks.
namespace convoy::nn {

namespace {

constexpr int64_t kTablePiece = 8192;

/// Scores of rows' targets, [R]; zero where they are not on this rank.
at::Tensor scores_at(const at::Tensor& scores, const at::Tensor& columns) {
  if (scores.size(1) == 0) return at::zeros({columns.size(0)}, scores.options().dtype(at::kDouble));
  const auto own = scores.gather(1, columns.clamp_min(0).unsqueeze(1)).squeeze(1);
  return own.to(at::kDouble).masked_fill_(columns < 0, 0);
}

}  // namespace

void add_product(at::Tensor& grad, const at::Tensor& slope, const at::Tensor& rows, bool writes) {
  if (rows.is_cuda()) return product_into(grad, slope.t(), rows, !writes);
  const int64_t items = grad.size(0);
  const int64_t piece = rows.is_cpu() ? std::min(kTablePiece, items) : items;
  auto product = at::empty({piece, grad.size(1)}, rows.options());
  for (int64_t begin = 0; begin < items; begin += piece) {
    const int64_t count = std::min(piece, items - begin);
    auto here = product.narrow(0, 0, count);
    at::mm_out(here, slope.narrow(1, begin, count).t(), rows);
    auto place = grad.narrow(0, begin, count);
    if (writes) {
      cast(place, here);
    } else {
      place.add_(here);
    }
  }
}

namespace {

/// Sums of one call over pieces of rows.
class CutLoss {
 public:
  CutLoss(const at::Tensor& h, ParamPtr table, const at::Tensor& targets,
          const CrossEntropyOptions& options, bool wants_slope)
      : table_(std::move(table)), options_(options), wants_slope_(wants_slope) {
    check_weights(options);
    const int64_t V = table_->shape()[0];
    first_ = std::clamp<int64_t>(options.first_id - table_->begin(), 0, V);
    num_items_ = V - first_;
    const auto given = table_->value().scalar_type();
    const auto dtype = given == at::kHalf ? at::kFloat : given;
    input_ = h.detach().to(dtype);
    if (options.ranks.shares()) input_ = options.ranks.gather(input_, label_of("states", table_));
    items_ = table_->value().narrow(0, first_, num_items_).to(dtype);
    targets_ = targets;
    columns_ = targets - (table_->begin() + first_);
    columns_ = columns_.masked_fill(columns_.lt(0).logical_or_(columns_.ge(num_items_)), -1);
    fp32_ = input_.options().dtype(at::kFloat);
    out.loss = at::zeros({}, fp32_);
    if (options.count_correct) out.correct = at::zeros({}, targets.options());
    if (options.keep_losses) out.losses = at::empty({input_.size(0)}, fp32_);
    if (wants_slope_) make_grads();
  }

  void run() {
    const auto& ranks = options_.ranks;
    const auto& tensor = ranks.group();
    const int64_t N = input_.size(0);
    const int64_t most = (table_->spec().shape[0] + tensor.size() - 1) / tensor.size();
    const int64_t piece = even_score_rows(N, most, input_.device());  // the same on all ranks
    auto buffer = at::empty({std::min(piece, N), num_items_}, input_.options());
    for (int64_t begin = 0; begin < N; begin += piece) {
      const int64_t R = std::min(piece, N - begin);
      const auto rows = input_.narrow(0, begin, R);
      const auto columns = columns_.narrow(0, begin, R);
      auto scores = buffer.narrow(0, 0, R);
      at::mm_out(scores, rows, items_.t());
      const auto& bias = options_.bias;
      if (bias) scores.add_(bias->value().narrow(0, first_, num_items_));
      at::Tensor turn;
      if (options_.cap != 0) {
        cap_scores(scores, options_.cap);
        if (wants_slope_) turn = slope_of_cap(scores, options_.cap);
      }
      auto log_sums = take_losses(scores, columns, targets_.narrow(0, begin, R), begin);
      if (wants_slope_) take_slopes(scores, log_sums, columns, rows, turn, begin);
    }
    input_.reset();
    if (!wants_slope_ || N == 0) return;
    if (options_.weights.defined()) h_grad.mul_(options_.weights.unsqueeze(1));
    const auto label = label_of("gradient of the states", table_);
    if (ranks.shares()) {
      h_grad = ranks.scatter_sum(h_grad, label);
    } else {
      tensor.all_reduce(h_grad, comm::ReduceOp::Sum, label);
    }
  }

  CrossEntropy out;
  at::Tensor h_grad, table_grad, bias_grad;
  bool straight = false;  // the table's gradient is in its place already

  /// Hands the parameters' gradients over, times `scale` (undefined: 1), and multiplies h_grad.
  void give(const at::Tensor& scale) {
    const auto add = [&](const ParamPtr& param, const at::Tensor& grad) {
      param->add_to_grad([&](at::Tensor& to) { to.narrow(0, first_, num_items_).add_(grad); });
    };
    if (scale.defined()) {
      for (auto* each : {&table_grad, &bias_grad, &h_grad}) {
        if (each->defined()) each->mul_(scale);
      }
    }
    if (table_grad.defined() && !straight) add(table_, table_grad);
    if (options_.bias) add(options_.bias, bias_grad);
  }

 private:
  void make_grads() {
    const bool frozen = !table_->spec().trainable;
    straight = !table_->grad_written() && (frozen || table_->grad().scalar_type() == at::kFloat);
    h_grad = at::empty({input_.size(0), input_.size(1)}, fp32_);
    if (straight) {
      table_->make_grad_in_parts();  // backward scales it
      table_->add_grad(at::kFloat, [&](at::Tensor& main_grad, bool) {
        main_grad.narrow(0, 0, first_).zero_();
        table_grad = main_grad.narrow(0, first_, num_items_);
        if (input_.size(0) == 0) table_grad.zero_();
      });
    } else if (!frozen) {
      table_grad = at::zeros({num_items_, input_.size(1)}, fp32_);
    }
    if (options_.bias) bias_grad = at::zeros({num_items_}, fp32_);
  }

  /// Adds the losses of R rows; returns the logarithms of their sums of exponentials.
  at::Tensor take_losses(at::Tensor& scores, const at::Tensor& columns, const at::Tensor& targets,
                         int64_t begin) {
    const int64_t R = scores.size(0);
    auto log_sums = at::empty({R}, fp32_);
    log_sums_of(scores, log_sums, options_.temperature);
    auto told = at::zeros({options_.count_correct ? 4 : 2, R}, fp32_.dtype(at::kDouble));
    told[0].copy_(log_sums);
    told[1].copy_(scores_at(scores, columns));
    if (options_.count_correct) {
      told[2].fill_(-HUGE_VAL);
      if (num_items_ > 0) {
        const auto best = scores.argmax(1, /*keepdim=*/true);
        told[2].copy_(scores.gather(1, best).squeeze(1));
        told[3].copy_(best.squeeze(1) + (table_->begin() + first_));
      }
    }
    const auto all =
        options_.ranks.group().all_gather(told, label_of("softmax", table_));  // [T, 2 or 4, R]
    const auto sums = all.select(1, 0).logsumexp(0);
    add_losses(sums - all.select(1, 1).sum(0) / options_.temperature, options_, begin, out);
    if (options_.count_correct) {
      const auto who = all.select(1, 2).argmax(0, /*keepdim=*/true);  // the lowest id of the best
      const auto best = all.select(1, 3).gather(0, who).squeeze(0);
      out.correct += (best.to(at::kLong) == targets).sum();
    }
    log_sums.copy_(sums);
    return log_sums;
  }

  void take_slopes(at::Tensor& scores, at::Tensor& log_sums, const at::Tensor& columns,
                   const at::Tensor& rows, const at::Tensor& turn, int64_t begin) {
    to_slopes(scores, log_sums, columns.contiguous(), options_.temperature);
    if (turn.defined()) scores.mul_(turn);
    auto back = h_grad.narrow(0, begin, scores.size(0));
    const auto weighted = table_grad.defined() ? weighted_rows(rows, options_, begin) : rows;
    const bool writes = straight && begin == 0;
    if (options_.bias) bias_grad.add_(scores.sum(0, false, at::kFloat));
    if (scores.is_cuda()) {
      product_into(back, scores, items_);
      if (table_grad.defined()) add_product(table_grad, scores, weighted, writes);
      return;
    }
    if (scores.scalar_type() != at::kFloat) {
      back.copy_(at::mm(scores, items_));
      if (table_grad.defined()) add_product(table_grad, scores, weighted, writes);
      return;
    }
    at::mm_out(back, scores, items_);
    if (!table_grad.defined()) return;
    writes ? at::mm_out(table_grad, scores.t(), weighted) : table_grad.addmm_(scores.t(), weighted);
  }

  ParamPtr table_;
  CrossEntropyOptions options_;
  bool wants_slope_;
  int64_t first_ = 0, num_items_ = 0;  // of the table's rows here
  at::Tensor input_, items_, targets_, columns_;
  at::TensorOptions fp32_;
};

}  // namespace

CrossEntropy vocab_parallel_cross_entropy(const at::Tensor& h, const ParamPtr& table,
                                          const at::Tensor& targets,
                                          const CrossEntropyOptions& options) {
  const bool wants_slope = at::GradMode::is_enabled();
  const auto state = without_grad([&] {
    auto made = std::make_shared<CutLoss>(h, table, targets, options, wants_slope);
    made->run();
    return made;
  });
  auto out = state->out;
  const auto h_dtype = h.scalar_type();
  out.loss = with_backward(out.loss, {h}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    const bool one = options.temperature == 1 && is_known_one(grad);
    state->give(one ? at::Tensor() : grad / options.temperature);
    return {state->h_grad.to(h_dtype)};
  });
  return out;
}

}  // namespace convoy::nn
