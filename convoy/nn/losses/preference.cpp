#include "convoy/nn/losses/preference.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/nn/node.h"

namespace convoy::nn {

namespace {

/// Losses of pairs [B] and their slopes by the log-probabilities of both answers, [B, 2]; double.
struct LossOfPairs {
  at::Tensor losses, slopes;
};

at::Tensor to_both(const at::Tensor& slope) {
  return at::stack({slope, -slope}, 1);
}

/// Loss `agree` times -log sigmoid(m) plus `differ` times -log sigmoid(-m), where m is beta times
/// the margin of `gains` [B, 2], the increases of the log-probabilities over the reference's.
LossOfPairs logistic_loss(const at::Tensor& gains, double beta, double agree, double differ) {
  const auto margin = beta * (gains.select(1, 0) - gains.select(1, 1));
  const auto losses = -agree * at::log_sigmoid(margin) - differ * at::log_sigmoid(-margin);
  const auto slope = beta * (differ * at::sigmoid(margin) - agree * at::sigmoid(-margin));
  return {losses, to_both(slope)};
}

/// IPO loss; `lengths` [B, 2] are the answers' numbers of targets.
LossOfPairs ipo_loss(const at::Tensor& gains, const at::Tensor& lengths, double beta) {
  const auto means = gains / lengths;
  const auto off = means.select(1, 0) - means.select(1, 1) - 1 / (2 * beta);
  return {off.square(), to_both(2 * off) / lengths};
}

LossOfPairs loss_of(const at::Tensor& gains, const at::Tensor& lengths,
                    const PreferenceOptions& options) {
  if (options.loss_type == "ipo") return ipo_loss(gains, lengths, options.beta);
  const bool robust = options.loss_type == "robust";
  internal_check(robust || options.loss_type == "sigmoid", "nn", "no loss of pairs is called {}",
                 options.loss_type);
  const double s = options.label_smoothing;
  if (!robust) return logistic_loss(gains, options.beta, 1 - s, s);
  return logistic_loss(gains, options.beta, (1 - s) / (1 - 2 * s), -s / (1 - 2 * s));
}

/// Sums over the targets of each answer, [B, 2] double.
at::Tensor sums_of_answers(const at::Tensor& values, const PreferencePairs& pairs) {
  auto out = at::zeros({pairs.reference.numel()}, pairs.reference.options());
  out.index_add_(0, pairs.answers, values.to(at::kDouble));
  return out.view_as(pairs.reference);
}

at::Tensor metrics_of(const at::Tensor& gains, const at::Tensor& log_probs, double beta) {
  const auto rewards = beta * gains;
  const auto chosen = rewards.select(1, 0), rejected = rewards.select(1, 1);
  return at::cat({at::stack({(chosen > rejected).sum().to(at::kDouble), (chosen - rejected).sum()}),
                  rewards.sum(0), log_probs.sum(0)});
}

/// Loss of pairs from the cross-entropies `losses` [N] of their targets, and each target's weight
/// in the gradient, [N] fp32.
std::pair<PreferenceLoss, at::Tensor> loss_by_targets(const at::Tensor& losses,
                                                      const PreferencePairs& pairs,
                                                      const PreferenceOptions& options) {
  const at::NoGradGuard no_grad;
  PreferenceLoss out;
  out.log_probs = sums_of_answers(-losses, pairs);
  const auto gains = out.log_probs - pairs.reference;
  const auto lengths = sums_of_answers(at::ones_like(losses), pairs).clamp_min_(1);
  const auto [of_pairs, slopes] = loss_of(gains, lengths, options);
  out.loss = of_pairs.sum().to(at::kFloat);
  out.metrics = metrics_of(gains, out.log_probs, options.beta);
  return {out, -slopes.view({-1}).index_select(0, pairs.answers).to(at::kFloat)};
}

/// Whether one pass over the scores is enough. Gradients of fp16 that are not weighted yet may
/// overflow.
bool weighs_afterwards(const at::Tensor& h, const ParamPtr& table,
                       const CrossEntropyOptions& scores) {
  return !table->spec().trainable && !scores.ranks.shares() && h.scalar_type() != at::kHalf;
}

/// Returns `h`, whose gradient is multiplied by the `weights` [N] that exist when backward runs.
at::Tensor weighted_in_backward(const at::Tensor& h, const std::shared_ptr<at::Tensor>& weights) {
  return with_backward(h.detach(), {h}, [weights](const at::Tensor& grad) {
    const auto weighted = grad * weights->unsqueeze(1);
    return std::vector<at::Tensor>{weighted.to(grad.scalar_type())};
  });
}

/// Returns `value` with the gradient of `other`.
at::Tensor with_gradient_of(const at::Tensor& value, const at::Tensor& other) {
  return with_backward(value, {other},
                       [](const at::Tensor& grad) { return std::vector<at::Tensor>{grad}; });
}

}  // namespace

const std::vector<std::string>& PreferenceOptions::loss_types() {
  static const std::vector<std::string> all{"sigmoid", "ipo", "robust"};
  return all;
}

const std::vector<std::string>& preference_metrics() {
  static const std::vector<std::string> all{"rewards/accuracies", "rewards/margins",
                                            "rewards/chosen",     "rewards/rejected",
                                            "logps/chosen",       "logps/rejected"};
  return all;
}

PreferenceLoss preference_loss(const at::Tensor& h, const ParamPtr& table,
                               const at::Tensor& targets, const PreferencePairs& pairs,
                               const PreferenceOptions& options, CrossEntropyOptions scores) {
  const bool learns = at::GradMode::is_enabled();
  if (learns && weighs_afterwards(h, table, scores)) {
    const auto weights = std::make_shared<at::Tensor>();
    scores.keep_losses = true;
    const auto entropy = cross_entropy(weighted_in_backward(h, weights), table, targets, scores);
    auto [out, of_targets] = loss_by_targets(entropy.losses, pairs, options);
    *weights = of_targets;
    out.loss = with_gradient_of(out.loss, entropy.loss);
    return out;
  }
  auto [out, weights] = without_grad([&] {
    scores.keep_losses = true;
    return loss_by_targets(cross_entropy(h, table, targets, scores).losses, pairs, options);
  });
  if (!learns) return out;
  scores.keep_losses = false;
  scores.weights = weights;
  out.loss = with_gradient_of(out.loss, cross_entropy(h, table, targets, scores).loss);
  return out;
}

}  // namespace convoy::nn
