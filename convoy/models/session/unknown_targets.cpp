#include "convoy/models/session/unknown_targets.h"

#include <ATen/ATen.h>

#include "convoy/comm/device.h"
#include "convoy/masking/item_masking.h"

namespace convoy::models {

at::Tensor missed_rows(const at::Tensor& known, const nn::Bundle& batch,
                       const nn::Context& context) {
  if (context.mode != nn::Mode::Evaluate) return {};
  const auto& from = context.loaded != nullptr ? *context.loaded : batch;
  const auto found = from.find(kMissed);
  if (found == from.end()) return {};
  const auto missed = found->second != 0;
  return missed.device() == known.device() ? missed : comm::upload(missed, known.device());
}

at::Tensor unknown_targets(const SessionConfig& config, const at::Tensor& known,
                           const nn::Bundle& batch, const nn::Context& context) {
  if (config.targets.empty() || context.mode != nn::Mode::Evaluate) return {};
  auto out = missed_rows(known, batch, context);
  if (config.unseen_items.empty()) return out;
  const auto unseen = comm::upload(at::tensor(config.unseen_items, at::kLong), known.device());
  const auto last = (masking::session_lengths(known) - 1).clamp_min(0).unsqueeze(1);
  const auto strange = at::isin(known.gather(1, last).squeeze(1), unseen);
  return out.defined() ? out.logical_or(strange) : strange;
}

at::Tensor without_last(const at::Tensor& ids, const at::Tensor& without) {
  const auto last = (masking::session_lengths(ids) - 1).unsqueeze(1);
  const auto places = at::arange(ids.size(1), ids.options());
  return ids.masked_fill((places == last).logical_and(without.unsqueeze(1)), 0);
}

}  // namespace convoy::models
