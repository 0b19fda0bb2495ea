#pragma once

#include "convoy/nn/block.h"

// Shapes: B rows, T positions, N targets, n negatives of each.
namespace convoy::models {

/// Draws `count` ids for each target [N, count], uniform among first_id..num_ids-1 without the
/// target. `positions` [N] are the targets' flat places in `ids` [B, T]. A pure function of seed,
/// step, sample and place in the row. On the targets' device; on a GPU nothing waits for it.
at::Tensor draw_negatives(const at::Tensor& ids, const at::Tensor& positions,
                          const at::Tensor& targets, int64_t first_id, int64_t num_ids,
                          int64_t count, const nn::Context& context);

}  // namespace convoy::models
