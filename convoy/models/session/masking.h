#pragma once

#include "convoy/nn/block.h"

// Shapes: B rows, T positions.
namespace convoy::models {

/// Masked-item training (BERT4Rec; Transformers4Rec's "mlm" without 80/10/10): which of the items
/// `ids` [B, T] (0 = padding) are hidden and to be predicted, [B, T] bool. Each with `probability`,
/// at least one and not all of a session of two or more; a session of one hides none. A pure
/// function of seed, step and the samples' indices, so every layout of ranks hides the same.
at::Tensor training_mask(const at::Tensor& ids, double probability, const nn::Context& context);

/// The last item of each session of two or more: the one that evaluation asks for.
at::Tensor last_item_mask(const at::Tensor& ids);

/// Positions [B] up to the last item: a row may end in padding.
at::Tensor session_lengths(const at::Tensor& ids);

}  // namespace convoy::models
