#include "convoy/models/session/next_item_losses.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/models/session/session.h"
#include "convoy/nn/losses/bpr.h"
#include "convoy/nn/losses/cross_entropy.h"
#include "convoy/nn/losses/gbce.h"
#include "convoy/nn/losses/label_smoothing.h"

namespace convoy::models {

namespace {

at::Tensor cross_entropy_of(const SessionConfig& config, const TargetsAmongAll& of,
                            const nn::Context& context) {
  const double share = config.label_smoothing_factor;
  if (share == 0) return nn::cross_entropy(of.states, of.table, of.targets, of.options).loss;
  const auto& options = of.options;
  const auto smoothing =
      nn::label_smoothing(of.states, of.table, of.targets,
                          {share, options.temperature, options.first_id, options.weights}, context);
  return nn::cross_entropy(of.states, of.table, of.targets, options).loss + smoothing;
}

at::Tensor gbce_of(const SessionConfig& config, const TargetsWithNegatives& of,
                   const nn::Context& context) {
  const int64_t others = config.item().cardinality - (config.score_padding ? 1 : 2);
  const double rate = static_cast<double>(config.n_negatives) / static_cast<double>(others);
  return nn::gbce(of.states, of.table, of.targets, of.negatives,
                  {.t = config.loss_options.at("gbce_t"),
                   .sampling_rate = std::min(rate, 1.0),
                   .temperature = of.common.temperature,
                   .weights = of.common.weights},
                  context);
}

at::Tensor bpr_of(const SessionConfig& /*config*/, const TargetsWithNegatives& of,
                  const nn::Context& context) {
  return nn::bpr(of.states, of.table, of.targets, of.negatives, of.common, context);
}

}  // namespace

const std::vector<NextItemLoss>& next_item_losses() {
  static const std::vector<NextItemLoss> all{
      {"cross_entropy", "over all scores", cross_entropy_of},
      {"gbce",
       "binary cross-entropy over the target and negatives sampled for it",
       nullptr,
       gbce_of,
       {{"gbce_t", 0.75,
         "how far gbce corrects for sampling: 0 = not at all (binary cross-entropy), 1 = fully", 0,
         1}}},
      {"bpr", "-log sigmoid of the target's score less each of theirs", nullptr, bpr_of}};
  return all;
}

std::vector<std::string> next_item_loss_names() {
  std::vector<std::string> out;
  for (const auto& loss : next_item_losses()) out.push_back(loss.name);
  return out;
}

const NextItemLoss& next_item_loss(const std::string& name) {
  const auto& all = next_item_losses();
  const auto found = std::ranges::find(all, name, &NextItemLoss::name);
  if (found != all.end()) return *found;
  const auto known = next_item_loss_names();
  fail<UsageError>("models", "loss = {} is unknown; expected one of {}{}", name, join(known),
                   did_you_mean(name, known));
}

std::vector<std::string> losses_with_negatives() {
  std::vector<std::string> out;
  for (const auto& loss : next_item_losses()) {
    if (loss.with_negatives != nullptr) out.push_back(loss.name);
  }
  return out;
}

std::map<std::string, double> initial_loss_options() {
  std::map<std::string, double> out;
  for (const auto& loss : next_item_losses()) {
    for (const auto& option : loss.options) out[option.name] = option.initial;
  }
  return out;
}

}  // namespace convoy::models
