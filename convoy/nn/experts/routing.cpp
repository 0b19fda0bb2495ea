#include "convoy/nn/experts/routing.h"

#include <ATen/ATen.h>

#include "convoy/nn/node.h"
#include "convoy/nn/shapes_only.h"

namespace convoy::nn {

namespace {

/// Whole numbers in the order of `x` fp32, below 2^31 in size.
at::Tensor ordered(const at::Tensor& x) {
  const auto bits = x.contiguous().view(at::kInt);
  // Of negative numbers, the larger ones have the smaller bits behind the sign.
  constexpr int64_t kAllButSign = 0x7fffffff;
  return at::where(bits < 0, bits.bitwise_xor(kAllButSign), bits).to(at::kLong);
}

/// Ids [N, k] of the largest of `logits` [N, E]: of equal ones, the lowest ids.
at::Tensor likeliest(const at::Tensor& logits, int64_t k) {
  const int64_t N = logits.size(0), E = logits.size(1);
  const auto whole = logits.options().dtype(at::kLong);
  if (shapes_only()) {  // no router says where to; in the long run, to all
    return at::arange(N * k, whole).remainder_(E).view({N, k});
  }
  const auto from_last = at::arange(E - 1, -1, -1, whole);
  const auto keys = ordered(logits.to(at::kFloat) + 0) * E + from_last;  // + 0: -0 equals 0
  return E - 1 - std::get<0>(keys.topk(k)).remainder(E);
}

}  // namespace

Routing route(const at::Tensor& logits, int64_t k, RoutingWeights weights) {
  Routing out;
  out.probs = at::softmax(logits, -1, at::kFloat);
  out.ids = without_grad([&] { return likeliest(logits.detach(), k); });
  out.weights = out.probs.gather(1, out.ids);
  if (weights == RoutingWeights::OfSumOne) out.weights = out.weights / out.weights.sum(-1, true);
  return out;
}

at::Tensor routing_sums(const Routing& routing, const at::Tensor& real) {
  const int64_t E = routing.probs.size(1), k = routing.ids.size(1);
  const auto counts = without_grad([&] {
    const auto options = routing.probs.options().requires_grad(false);
    const auto each = real.defined() ? real.to(at::kFloat).unsqueeze(1).expand({-1, k})
                                     : at::ones(routing.ids.sizes(), options);
    return at::zeros({E}, options).scatter_add_(0, routing.ids.reshape({-1}), each.reshape({-1}));
  });
  const auto probs =
      real.defined() ? routing.probs * real.to(at::kFloat).unsqueeze(1) : routing.probs;
  return at::stack({counts, probs.sum(0)});
}

at::Tensor balancing_loss(const at::Tensor& sums, int64_t k) {
  const auto tokens = sums[0].detach().sum() / static_cast<double>(k);
  const auto shares = sums[0].detach() / tokens, means = sums[1] / tokens;
  return static_cast<double>(sums.size(1)) * (shares * means).sum();
}

}  // namespace convoy::nn
