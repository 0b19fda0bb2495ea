#include "convoy/models/session/session_targets.h"

#include <ATen/ATen.h>

#include <cmath>

#include "convoy/models/session/masking.h"
#include "convoy/nn/layers.h"

namespace convoy::models {

using nn::Mode;

SessionTargets::SessionTargets(const SessionConfig& config,
                               const std::function<nn::DenseParams(const std::string&)>& declare)
    : targets_(config.targets), summary_type_(config.summary_type) {
  for (const auto& target : targets_) {
    heads_.push_back(declare("prediction_tasks." + target.column));
  }
}

void SessionTargets::add(const nn::Bundle& in, const at::Tensor& states,
                         const at::Tensor& num_asked, const nn::Context& context,
                         nn::Bundle& out) const {
  const auto lengths = session_lengths(in.at("item_ids"));
  const auto none = lengths == 0;
  const auto from = summary(states, lengths);
  for (size_t i = 0; i < targets_.size(); ++i) {
    const auto& [column, binary, weight] = targets_[i];
    const auto score = nn::linear(from, heads_[i]).squeeze(1).to(at::kFloat);
    if (context.mode != Mode::Train) {
      out[prediction(column)] = binary ? at::sigmoid(score) : score;
    }
    if (context.mode == Mode::Predict) continue;
    const auto wanted = in.at(answer(column)).to(at::kFloat);
    const auto losses =
        binary ? -(wanted * at::log_sigmoid(score) + (1 - wanted) * at::log_sigmoid(-score))
               : (score - wanted).square();
    const auto times = num_asked.clamp_min(1).masked_fill(none, 0);
    out["loss"] = out.at("loss") + (losses * times).sum() * weight;
    if (context.mode == Mode::Evaluate) out[answer(column)] = wanted.masked_fill(none, NAN);
  }
}

at::Tensor SessionTargets::summary(const at::Tensor& states, const at::Tensor& lengths) const {
  if (summary_type_ == "first") return states.select(1, 0);
  if (summary_type_ == "last") {
    const auto at = (lengths - 1).clamp_min(0).view({-1, 1, 1});
    return states.gather(1, at.expand({-1, 1, states.size(2)})).squeeze(1);
  }
  const auto places = at::arange(states.size(1), lengths.options());
  const auto items = (places < lengths.unsqueeze(1)).to(states.scalar_type());
  const auto share = items / lengths.clamp_min(1).unsqueeze(1);
  return (states * share.unsqueeze(2)).sum(1);
}

}  // namespace convoy::models
