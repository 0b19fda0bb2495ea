#include "convoy/models/session/asked_items.h"

#include <ATen/ATen.h>

#include "convoy/masking/item_masking.h"

namespace convoy::models {

using nn::Mode;

at::Tensor loaded_items(const SessionConfig& config, const at::Tensor& ids,
                        const nn::Context& context) {
  if (context.loaded == nullptr) return ids;
  const auto& known = context.loaded->at(config.item_feature);
  const int64_t missing = ids.size(1) - known.size(1);
  return missing > 0 ? at::constant_pad_nd(known, {0, missing}, 0) : known;
}

at::Tensor loaded_context(const nn::Bundle& in, const nn::Context& context) {
  if (context.mode != Mode::Train) return {};
  const auto& from = context.loaded == nullptr ? in : *context.loaded;
  const auto found = from.find(kNumContext);
  return found == from.end() ? at::Tensor() : found->second;
}

at::Tensor asked_items(const SessionConfig& config, const at::Tensor& known,
                       const nn::Context& context, const at::Tensor& num_context) {
  const bool trains = context.mode == Mode::Train;
  if (config.masks_items()) {
    return trains ? masking::training_mask(known, config.mlm_probability, context, num_context)
                  : asked_item(known, context);
  }
  const auto places = at::arange(known.size(1), known.options());
  if (trains && !config.train_on_last_item_seq_only) {
    const auto asked = has_successor(known);
    if (!num_context.defined()) return asked;
    return asked.logical_and(places >= (num_context - 1).unsqueeze(1));
  }
  const auto last = masking::session_lengths(known) - 1;
  const auto asked = context.mode == Mode::Predict ? last.clamp_min(0) : last - 1;
  return places == asked.unsqueeze(1);
}

masking::PermutationOptions permutation_options(const SessionConfig& config) {
  return {config.plm_probability, config.plm_max_span_length, config.plm_permute_all};
}

at::Tensor training_targets(const SessionConfig& config, const nn::Bundle& batch,
                            const nn::Context& context) {
  const auto& ids = batch.at(config.item_feature);
  const auto before = loaded_context(batch, context);
  const auto asked =
      config.permutes()
          ? masking::training_permutation(ids, permutation_options(config), context, before).asked
          : asked_items(config, ids, context, before);
  const auto places = asked.reshape({-1}).nonzero().squeeze(1);  // on the host
  return config.masks_items() ? places : places + 1;
}

at::Tensor asked_item(const at::Tensor& ids, const nn::Context& context) {
  if (context.mode != Mode::Predict) return masking::last_item_mask(ids);
  return at::arange(ids.size(1), ids.options()) == masking::session_lengths(ids).unsqueeze(1);
}

at::Tensor has_successor(const at::Tensor& ids) {
  return at::constant_pad_nd(ids.narrow(1, 1, ids.size(1) - 1) != 0, {0, 1}, 0);
}

}  // namespace convoy::models
