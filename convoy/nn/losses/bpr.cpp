#include "convoy/nn/losses/bpr.h"

#include <ATen/ATen.h>

#include "convoy/nn/losses/own_items.h"

namespace convoy::nn {

at::Tensor bpr(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
               const at::Tensor& negatives, const SampledLossOptions& options,
               const Context& context) {
  const int64_t n = negatives.size(1);
  const auto ids = at::cat({targets.unsqueeze(1), negatives}, 1);
  const auto loss_of = [&](at::Tensor& scores) {
    auto own = scores.narrow(1, 0, 1), others = scores.narrow(1, 1, n);
    // Score of each negative minus the target's; the loss is its softplus.
    others.sub_(own).div_(options.temperature);
    const auto losses = at::log_sigmoid(-others).mean(1).neg_();
    others.sigmoid_().div_(static_cast<double>(n) * options.temperature);
    own.copy_(others.sum(1, /*keepdim=*/true).neg_());
    return losses;
  };
  return loss_of_own_items(h, table, ids, options.weights, loss_of, context);
}

}  // namespace convoy::nn
