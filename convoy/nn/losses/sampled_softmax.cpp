#include "convoy/nn/losses/sampled_softmax.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/comm/device.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/losses/cross_entropy.h"
#include "convoy/nn/node.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::nn {

namespace {

constexpr uint64_t kSite = 0x6e656761;  // keeps these draws apart from others

/// Competitors of a target: rows of the table, and the amounts by which their scores are lowered.
struct Rivals {
  at::Tensor ids, rows, lowered;  // [n], [n, D], [n] fp32
};

/// Losses and their gradients, a cache's worth of scores at a time.
class SampledLoss {
 public:
  SampledLoss(const at::Tensor& h, Rivals negatives, Rivals targets,
              const SampledLossOptions& options)
      : h_(h),
        negatives_(std::move(negatives)),
        targets_(std::move(targets)),
        temperature_(options.temperature),
        weights_(options.weights) {
    const auto fp32 = h.options().dtype(at::kFloat);
    loss = at::zeros({}, fp32);
    if (!at::GradMode::is_enabled()) return;
    to_h = at::empty(h.sizes(), fp32);
    to_targets = at::empty(h.sizes(), fp32);
    to_negatives = at::zeros(negatives_.rows.sizes(), fp32);
  }

  void run() {
    const int64_t rows = h_.size(0), n = negatives_.ids.size(0);
    const int64_t most = std::max<int64_t>(1, score_rows_at_once(n + 1, h_.device()));
    for (int64_t begin = 0; begin < rows; begin += most) piece(begin, std::min(most, rows - begin));
  }

  at::Tensor loss, to_h, to_targets, to_negatives;

 private:
  void piece(int64_t begin, int64_t count) {
    const auto h = h_.narrow(0, begin, count);
    const auto own = targets_.rows.narrow(0, begin, count);
    const auto ids = targets_.ids.narrow(0, begin, count).unsqueeze(1);
    const int64_t n = negatives_.ids.size(0);
    auto scores = at::empty({count, n + 1}, loss.options());
    scores.select(1, 0).copy_((h * own).sum(1, false, at::kFloat));
    scores.select(1, 0).sub_(targets_.lowered.narrow(0, begin, count), temperature_);
    auto against = at::mm(h, negatives_.rows.t()).to(at::kFloat);
    against.sub_(negatives_.lowered, temperature_);
    against.masked_fill_(ids == negatives_.ids, -std::numeric_limits<float>::infinity());
    scores.narrow(1, 1, n).copy_(against);
    const auto first = at::zeros({count}, targets_.ids.options());
    const auto softmax = softmax_loss(scores, first, temperature_);
    const auto weights = weights_.defined() ? weights_.narrow(0, begin, count) : weights_;
    loss.add_((weights.defined() ? softmax.losses * weights : softmax.losses).sum());
    if (!to_h.defined()) return;
    scores.mul_(softmax.scales.unsqueeze(1));
    scores.select(1, 0).sub_(1);
    scores.div_(temperature_);
    if (weights.defined()) scores.mul_(weights.unsqueeze(1));
    const auto slopes = scores.narrow(1, 1, n).to(h.scalar_type());
    const auto slope = scores.narrow(1, 0, 1);
    to_h.narrow(0, begin, count).copy_(at::mm(slopes, negatives_.rows)).add_(slope * own);
    to_targets.narrow(0, begin, count).copy_(slope * h);
    to_negatives.add_(at::mm(slopes.t(), h));
  }

  at::Tensor h_;
  Rivals negatives_, targets_;
  double temperature_;
  at::Tensor weights_;
};

}  // namespace

const std::vector<std::string>& NegativeSampler::kinds() {
  static const std::vector<std::string> all{"uniform", "log_uniform", "popularity"};
  return all;
}

NegativeSampler::NegativeSampler(int64_t first_id, int64_t num_ids, int64_t count,
                                 const std::string& kind)
    : first_id_(first_id),
      num_ids_(num_ids - first_id),
      count_(std::min(count, num_ids - first_id)),
      log_uniform_(kind == "log_uniform") {
  internal_check(count_ >= 1, "nn", "{} negatives of {} ids", count, num_ids_);
  if (!log_uniform_) {
    factor_ = static_cast<double>(count_) / static_cast<double>(num_ids_);
    return;
  }
  // The first ranks are certain while c q is at least one for them.
  const double whole = std::log(static_cast<double>(num_ids_) + 1);
  for (;; ++certain_) {
    const auto m = static_cast<double>(certain_);
    const double rest = 1 - std::log(m + 1) / whole;
    if (certain_ >= count_ || rest <= 0) break;
    factor_ = (static_cast<double>(count_) - m) / rest;
    if (factor_ * std::log((m + 2) / (m + 1)) / whole < 1) break;
  }
  if (certain_ >= count_) factor_ = 0;
}

NegativeSampler::NegativeSampler(int64_t first_id, const std::vector<double>& weights,
                                 int64_t count)
    : first_id_(first_id),
      num_ids_(std::ssize(weights)),
      count_(std::min(count, std::ssize(weights))) {
  internal_check(count_ >= 1, "nn", "{} negatives of {} ids", count, num_ids_);
  // The heaviest are certain while c w is at least one for them.
  auto sorted = weights;
  std::ranges::sort(sorted, std::greater());
  double rest = 0;
  for (const double weight : sorted) rest += weight;
  double most = HUGE_VAL;  // weights from here on are certain
  for (int64_t m = 0; m < count_; ++m) {
    const double weight = sorted[static_cast<size_t>(m)];
    factor_ = static_cast<double>(count_ - m) / rest;
    if (factor_ * weight < 1) break;
    most = weight;
    rest -= weight;
    if (m + 1 == count_) factor_ = 0;
  }
  below_.reserve(weights.size() + 1);
  below_.push_back(0);
  logs_ = at::empty({num_ids_}, at::kFloat);
  auto* logs = logs_.data_ptr<float>();
  for (const double weight : weights) {
    const double p = weight >= most ? 1 : std::min(1.0, factor_ * weight);
    below_.push_back(below_.back() + p);
    *logs++ = static_cast<float>(std::log(p));
  }
}

double NegativeSampler::probability(int64_t id) const {
  const int64_t rank = id - first_id_;
  if (!below_.empty()) {
    const auto r = static_cast<size_t>(rank);
    return below_[r + 1] - below_[r];
  }
  if (!log_uniform_) return factor_;
  if (rank < certain_) return 1;
  const auto r = static_cast<double>(rank);
  return factor_ * std::log((r + 2) / (r + 1)) / std::log(static_cast<double>(num_ids_) + 1);
}

double NegativeSampler::cumulative(int64_t rank) const {
  if (!below_.empty()) return below_[static_cast<size_t>(rank)];
  const auto r = static_cast<double>(rank), m = static_cast<double>(certain_);
  if (!log_uniform_) return factor_ * r;
  if (rank <= certain_) return r;
  return m + factor_ * std::log((r + 1) / (m + 1)) / std::log(static_cast<double>(num_ids_) + 1);
}

at::Tensor NegativeSampler::draw(uint64_t seed, int64_t step) const {
  const uint64_t key = hash_combine(hash_combine(mix64(seed), static_cast<uint64_t>(step)), kSite);
  const double start = uniform01(key, 0);
  std::vector<int64_t> ids;
  int64_t rank = 0;
  for (int64_t i = 0; i < count_ && rank < num_ids_; ++i) {
    // The first rank up to which more than this adds up.
    const double mark = start + static_cast<double>(i);
    int64_t low = rank, high = num_ids_ - 1;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (cumulative(middle + 1) > mark) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    ids.push_back(first_id_ + low);
    rank = low + 1;
  }
  return at::tensor(ids, at::kLong);
}

at::Tensor NegativeSampler::log_probabilities(const at::Tensor& ids) const {
  if (!below_.empty()) {
    if (logs_.device() != ids.device()) logs_ = comm::upload(logs_, ids.device());
    return logs_.index_select(0, (ids - first_id_).reshape({-1})).reshape(ids.sizes());
  }
  if (!log_uniform_)
    return at::full(ids.sizes(), std::log(factor_), ids.options().dtype(at::kFloat));
  const auto ranks = (ids - first_id_).to(at::kDouble);
  const double whole = std::log(static_cast<double>(num_ids_) + 1);
  auto p = (ranks + 2).div_(ranks + 1).log_().mul_(factor_ / whole);
  p.masked_fill_(ranks < static_cast<double>(certain_), 1);
  return p.log_().to(at::kFloat);
}

at::Tensor sampled_cross_entropy(const at::Tensor& h, const ParamPtr& table,
                                 const at::Tensor& targets, const NegativeSampler& sampler,
                                 const SampledLossOptions& options, const Context& context) {
  const auto drawn = comm::upload(sampler.draw(context.seed, context.step), h.device());
  const SampledNegatives negatives{drawn, sampler.log_probabilities(drawn),
                                   sampler.log_probabilities(targets)};
  return sampled_cross_entropy(h, table, targets, negatives, options, context);
}

at::Tensor sampled_cross_entropy(const at::Tensor& h, const ParamPtr& table,
                                 const at::Tensor& targets, const SampledNegatives& negatives,
                                 const SampledLossOptions& options, const Context& context) {
  const auto rows = embedding(negatives.ids, table, /*padding=*/false, context.tensor);
  const auto own = embedding(targets, table, /*padding=*/false, context.tensor);
  // fp16 cannot hold the slopes of a softmax over many items.
  const bool recorded = at::GradMode::is_enabled();
  const auto dtype = context.compute_dtype == at::kBFloat16 ? at::kBFloat16 : at::kFloat;
  SampledLoss sampled(h.detach().to(dtype),
                      {negatives.ids, rows.detach().to(dtype), negatives.lowered},
                      {targets, own.detach().to(dtype), negatives.of_targets}, options);
  {
    at::NoGradGuard no_grad;
    sampled.run();
  }
  if (!recorded) return sampled.loss;
  return with_backward(
      sampled.loss, {h, rows, own},
      [to_h = sampled.to_h.to(h.scalar_type()), to_rows = sampled.to_negatives,
       to_own = sampled.to_targets](const at::Tensor& grad) -> std::vector<at::Tensor> {
        return {(to_h * grad).to(to_h.scalar_type()), to_rows * grad, to_own * grad};
      });
}

}  // namespace convoy::nn
