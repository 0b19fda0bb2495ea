#pragma once

#include <functional>

#include "convoy/nn/layers/wanted_tokens.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::models {

/// Returns the tensor and context ranks as they hold the states of the tokens `ids` [B, T]: whole
/// in prediction, which keeps nothing for a backward.
nn::TensorRanks ranks_of(const at::Tensor& ids, const nn::Context& context);

/// Ranks as they hold the states `hidden` of a bundle, whose tokens are its `input_ids` or
/// `item_ids`.
nn::TensorRanks ranks_of(const nn::Bundle& in, const nn::Context& context);

/// `ranks` among the positions `asked` that put_targets() found. The number of them on each rank is
/// read from `asked`, or, where that would wait for a GPU, from the result of `targets`: all
/// targets [B, T] on the host, below 0 where there is none.
nn::TensorRanks among_asked(const nn::TensorRanks& ranks, const at::Tensor& asked,
                            const std::function<at::Tensor()>& targets);

/// Tokens bundle["asked"] [N] of bundle["hidden"] [B, T, D], or of a share of it that the ranks
/// hold: what a layer has to give where nobody reads the others. All tokens where none are named.
nn::WantedTokens asked_tokens(const nn::Bundle& in, const nn::TensorRanks& ranks);

}  // namespace convoy::models
