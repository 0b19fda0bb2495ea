#include "convoy/nn/losses/own_items.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "convoy/nn/layers/add_to_table.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/losses/cross_entropy.h"
#include "convoy/nn/node.h"

namespace convoy::nn {

namespace {

/// Calls a function for pieces [begin, begin + count) of the rows that are worth having in memory
/// at once, where a row has `width` elements.
void in_pieces(int64_t rows, int64_t width, at::Device device,
               const std::function<void(int64_t begin, int64_t count)>& use) {
  const int64_t most = std::max<int64_t>(1, score_rows_at_once(width, device));
  for (int64_t begin = 0; begin < rows; begin += most) use(begin, std::min(most, rows - begin));
}

/// Adds slopes [N, K] times h [N, D] to the rows `ids` [N, K] of the table's gradient.
void add_products(const ParamPtr& table, const at::Tensor& ids, const at::Tensor& slopes,
                  const at::Tensor& h, const comm::Group& tensor) {
  const int64_t width = h.size(1);
  in_pieces(h.size(0), ids.size(1) * width, h.device(), [&](int64_t begin, int64_t count) {
    const auto rows = slopes.narrow(0, begin, count).unsqueeze(2) *
                      h.narrow(0, begin, count).unsqueeze(1).to(at::kFloat);
    add_to_table(table, ids.narrow(0, begin, count).reshape({-1}), rows.view({-1, width}), tensor);
  });
}

}  // namespace

at::Tensor loss_of_own_items(const at::Tensor& h, const ParamPtr& table, const at::Tensor& ids,
                             const at::Tensor& weights, const LossOfScores& loss_of,
                             const Context& context) {
  const int64_t N = h.size(0), K = ids.size(1);
  const auto dtype = context.compute_dtype == at::kBFloat16 ? at::kBFloat16 : at::kFloat;
  const auto states = h.detach().to(dtype);
  const auto fp32 = h.options().dtype(at::kFloat).requires_grad(false);
  at::Tensor loss, slopes, to_h;
  without_grad([&] {
    loss = at::zeros({}, fp32);
    slopes = at::empty({N, K}, fp32);
    to_h = at::empty(h.sizes(), fp32);
    in_pieces(N, K * h.size(1), h.device(), [&](int64_t begin, int64_t count) {
      const auto x = states.narrow(0, begin, count);
      const auto rows =
          embedding(ids.narrow(0, begin, count), table, /*padding=*/false, context.tensor)
              .to(dtype);
      auto scores = at::bmm(rows, x.unsqueeze(2)).squeeze(2).to(at::kFloat);
      auto losses = loss_of(scores);
      if (weights.defined()) {
        const auto own = weights.narrow(0, begin, count);
        losses = losses * own;
        scores.mul_(own.unsqueeze(1));
      }
      loss.add_(losses.sum());
      slopes.narrow(0, begin, count).copy_(scores);
      to_h.narrow(0, begin, count).copy_(at::bmm(scores.to(dtype).unsqueeze(1), rows).squeeze(1));
    });
    return loss;
  });
  if (!at::GradMode::is_enabled()) return loss;
  return with_backward(loss, {h}, [=, tensor = context.tensor](const at::Tensor& grad) {
    add_products(table, ids, slopes * grad, states, tensor);
    return std::vector<at::Tensor>{(to_h * grad).to(h.scalar_type())};
  });
}

}  // namespace convoy::nn
