#include "convoy/nn/losses/gbce.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>

#include "convoy/nn/layers/add_to_table.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/losses/cross_entropy.h"
#include "convoy/nn/node.h"

namespace convoy::nn {

namespace {

/// Rows [begin, begin + count) for each piece of what is worth having in memory at once, where a
/// row has `width` elements.
void in_pieces(int64_t rows, int64_t width, at::Device device,
               const std::function<void(int64_t begin, int64_t count)>& use) {
  const int64_t most = std::max<int64_t>(1, score_rows_at_once(width, device));
  for (int64_t begin = 0; begin < rows; begin += most) use(begin, std::min(most, rows - begin));
}

/// Adds slopes [N, n + 1] times h [N, D] to the rows `ids` [N, n + 1] of the table's gradient.
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

at::Tensor gbce(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
                const at::Tensor& negatives, const GbceOptions& options, const Context& context) {
  const int64_t N = h.size(0), n = negatives.size(1);
  const auto ids = at::cat({targets.unsqueeze(1), negatives}, 1);
  const auto dtype = context.compute_dtype == at::kBFloat16 ? at::kBFloat16 : at::kFloat;
  const auto states = h.detach().to(dtype);
  const auto fp32 = h.options().dtype(at::kFloat).requires_grad(false);
  const double beta = 1 - options.t * (1 - options.sampling_rate);
  at::Tensor loss, slopes, to_h;
  without_grad([&] {
    // The target's score counts downwards, the others' upwards: all terms are softplus.
    auto signs = at::ones({n + 1}, fp32),
         weights = at::full({n + 1}, 1 / static_cast<double>(n + 1), fp32);
    signs[0].fill_(-1);
    weights[0].mul_(beta);
    loss = at::zeros({}, fp32);
    slopes = at::empty({N, n + 1}, fp32);
    to_h = at::empty(h.sizes(), fp32);
    in_pieces(N, (n + 1) * h.size(1), h.device(), [&](int64_t begin, int64_t count) {
      const auto x = states.narrow(0, begin, count);
      const auto rows =
          embedding(ids.narrow(0, begin, count), table, /*padding=*/false, context.tensor)
              .to(dtype);
      auto scores = at::bmm(rows, x.unsqueeze(2)).squeeze(2).to(at::kFloat);
      scores.div_(options.temperature).mul_(signs);
      auto terms = at::log_sigmoid(-scores) * weights;
      auto slope = slopes.narrow(0, begin, count);
      slope.copy_(scores.sigmoid_().mul_(weights * signs).div_(options.temperature));
      if (options.weights.defined()) {
        const auto of_rows = options.weights.narrow(0, begin, count).unsqueeze(1);
        terms.mul_(of_rows);
        slope.mul_(of_rows);
      }
      loss.add_(terms.sum().neg_());
      to_h.narrow(0, begin, count).copy_(at::bmm(slope.to(dtype).unsqueeze(1), rows).squeeze(1));
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
