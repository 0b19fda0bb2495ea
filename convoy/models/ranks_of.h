#pragma once

#include <functional>

#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::models {

/// The tensor and context ranks as they hold the states of the tokens `ids` [B, T]: whole in
/// prediction, which keeps nothing for a backward.
nn::TensorRanks ranks_of(const at::Tensor& ids, const nn::Context& context);

/// The same for the states `hidden` of a bundle, which are those of its `input_ids` or `item_ids`.
nn::TensorRanks ranks_of(const nn::Bundle& in, const nn::Context& context);

/// `ranks` among the positions `asked` that put_targets() found. How many are whose is read from
/// them, or, where that would wait for a GPU, from what `targets` gives: all [B, T] on the host;
/// null: there is no other way.
nn::TensorRanks among_asked(const nn::TensorRanks& ranks, const at::Tensor& asked,
                            const std::function<at::Tensor()>& targets);

}  // namespace convoy::models
