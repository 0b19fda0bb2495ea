#pragma once

#include "convoy/nn/tensor_ranks.h"

namespace convoy::models {

/// The tensor and context ranks as they hold the states of the tokens `ids` [B, T]: whole in
/// prediction, which keeps nothing for a backward.
nn::TensorRanks ranks_of(const at::Tensor& ids, const nn::Context& context);

/// The same for the states `hidden` of a bundle, which are those of its `input_ids` or `item_ids`.
nn::TensorRanks ranks_of(const nn::Bundle& in, const nn::Context& context);

}  // namespace convoy::models
