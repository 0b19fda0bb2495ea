#include "convoy/nn/losses/gbce.h"

#include <ATen/ATen.h>

#include "convoy/nn/losses/own_items.h"

namespace convoy::nn {

at::Tensor gbce(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
                const at::Tensor& negatives, const GbceOptions& options, const Context& context) {
  const int64_t n = negatives.size(1);
  const auto fp32 = h.options().dtype(at::kFloat).requires_grad(false);
  const double beta = 1 - options.t * (1 - options.sampling_rate);
  // The target's score counts downwards, the others' upwards: all terms are softplus.
  auto signs = at::ones({n + 1}, fp32),
       weights = at::full({n + 1}, 1 / static_cast<double>(n + 1), fp32);
  signs[0].fill_(-1);
  weights[0].mul_(beta);
  const auto ids = at::cat({targets.unsqueeze(1), negatives}, 1);
  const auto loss_of = [&](at::Tensor& scores) {
    scores.div_(options.temperature).mul_(signs);
    const auto losses = (at::log_sigmoid(-scores) * weights).sum(1).neg_();
    scores.sigmoid_().mul_(weights * signs).div_(options.temperature);
    return losses;
  };
  return loss_of_own_items(h, table, ids, options.weights, loss_of, context);
}

}  // namespace convoy::nn
