#include "convoy/models/session/session_targets.h"

#include <ATen/ATen.h>

#include <cmath>

#include "convoy/masking/item_masking.h"
#include "convoy/models/session/unknown_targets.h"
#include "convoy/nn/layers/layers.h"

namespace convoy::models {

using nn::Mode;

SessionTargets::SessionTargets(const SessionConfig& config,
                               const std::function<nn::DenseParams(const std::string&)>& declare)
    : config_(config) {
  for (const auto& target : config.targets) {
    heads_.push_back(declare("prediction_tasks." + target.column));
  }
}

void SessionTargets::add(const nn::Bundle& in, const at::Tensor& states, const at::Tensor& times,
                         const nn::Context& context, nn::Bundle& out) const {
  const auto none = masking::session_lengths(in.at("item_ids")) == 0;
  const auto missed = in.find(kMissed);
  const bool misses = context.mode == Mode::Evaluate && missed != in.end();
  const auto lossless = misses ? none.logical_or(missed->second != 0) : none;
  const auto from = summary(states, in, context.mode);
  for (size_t i = 0; i < config_.targets.size(); ++i) {
    const auto& [column, binary, weight] = config_.targets[i];
    const auto score = nn::linear(from, heads_[i]).squeeze(1).to(at::kFloat);
    if (context.mode != Mode::Train) {
      out[prediction(column)] = binary ? at::sigmoid(score) : score;
    }
    if (context.mode == Mode::Predict) continue;
    const auto wanted = in.at(answer(column)).to(at::kFloat);
    const auto losses =
        binary ? -(wanted * at::log_sigmoid(score) + (1 - wanted) * at::log_sigmoid(-score))
               : (score - wanted).square();
    const auto counted = times.masked_fill(lossless, 0);
    out["loss"] = out.at("loss") + (losses * counted).sum() * weight;
    if (context.mode == Mode::Evaluate) out[answer(column)] = wanted.masked_fill(none, NAN);
  }
}

at::Tensor SessionTargets::cls_places(const SessionConfig& config, const at::Tensor& ids,
                                      nn::Mode mode) {
  return masking::session_lengths(ids) + (config.masks_items() && mode == Mode::Predict ? 1 : 0);
}

at::Tensor SessionTargets::summary(const at::Tensor& states, const nn::Bundle& in,
                                   nn::Mode mode) const {
  const auto& type = config_.summary_type;
  if (type == "first") return states.select(1, 0);
  auto ids = in.at("item_ids");
  const auto unknown = in.find(kUnknownTarget);
  // With masked items cls stays where SessionInput put it, behind the hidden target.
  const bool has_unknown = unknown != in.end() && !(type == "cls" && config_.masks_items());
  if (has_unknown) ids = without_last(ids, unknown->second);
  const auto lengths = masking::session_lengths(ids);
  if (type == "last" || type == "cls") {
    const auto places = type == "cls" ? cls_places(config_, ids, mode) : (lengths - 1).clamp_min(0);
    const auto at = places.view({-1, 1, 1}).expand({-1, 1, states.size(2)});
    return states.gather(1, at).squeeze(1);
  }
  const auto places = at::arange(states.size(1), lengths.options());
  const auto items = (places < lengths.unsqueeze(1)).to(states.scalar_type());
  const auto share = items / lengths.clamp_min(1).unsqueeze(1);
  return (states * share.unsqueeze(2)).sum(1);
}

}  // namespace convoy::models
