#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "convoy/base/json.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

// The row of an embedding that stands for padding: torch.nn.Embedding's padding_idx, for which
// Hugging Face's models take pad_token_id.
namespace convoy::models {

/// Row of a table of `num_ids` that pad_token_id names; a negative one counts from the end. None
/// for null. Throws UsageError for what names no row.
std::optional<int64_t> padding_row(const Json& pad_token_id, int64_t num_ids);

/// Returns the rows `x` that embedding() gave for `ids` [B, T], where no token of the row `padding`
/// has a gradient for the table.
at::Tensor untrained_at(std::optional<int64_t> padding, const at::Tensor& ids, const at::Tensor& x,
                        const nn::TensorRanks& ranks);

}  // namespace convoy::models
