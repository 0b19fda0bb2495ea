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

at::Tensor asked_items(const SessionConfig& config, const at::Tensor& known,
                       const nn::Context& context) {
  const bool trains = context.mode == Mode::Train;
  if (config.masks_items()) {
    return trains ? masking::training_mask(known, config.mlm_probability, context)
                  : asked_item(known, context);
  }
  if (trains && !config.train_on_last_item_seq_only) return has_successor(known);
  const auto places = at::arange(known.size(1), known.options());
  const auto last = masking::session_lengths(known) - 1;
  const auto asked = context.mode == Mode::Predict ? last.clamp_min(0) : last - 1;
  return places == asked.unsqueeze(1);
}

at::Tensor asked_item(const at::Tensor& ids, const nn::Context& context) {
  if (context.mode != Mode::Predict) return masking::last_item_mask(ids);
  return at::arange(ids.size(1), ids.options()) == masking::session_lengths(ids).unsqueeze(1);
}

at::Tensor has_successor(const at::Tensor& ids) {
  return at::constant_pad_nd(ids.narrow(1, 1, ids.size(1) - 1) != 0, {0, 1}, 0);
}

}  // namespace convoy::models
