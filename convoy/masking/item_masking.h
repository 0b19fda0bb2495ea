#pragma once

#include "convoy/nn/block.h"

// Shapes: B rows, T positions.
namespace convoy::masking {

/// Masked-item training (BERT4Rec; Transformers4Rec's "mlm" without 80/10/10): which of the items
/// `ids` [B, T] (0 = padding) are hidden and to be predicted, [B, T] bool. Each with `probability`,
/// at least one and not all of a session of two or more; a session of one hides none. `num_context`
/// [B] int64 on the host: items at the start of each row that belong to no session and are never
/// hidden; undefined: none. A pure function of seed, step and the samples' indices, so every layout
/// of ranks hides the same.
at::Tensor training_mask(const at::Tensor& ids, double probability, const nn::Context& context,
                         const at::Tensor& num_context = {});

/// Targets of permuted training (XLNet's "plm").
struct ItemPermutation {
  at::Tensor asked;    ///< [B, T] bool: the items to be predicted
  at::Tensor visible;  ///< [B, T, T] bool: whether position i sees which item is at j
};

struct PermutationOptions {
  double probability = 1.0 / 6;  ///< part of the items that is asked for
  int64_t max_span = 5;          ///< longest stretch of them
  bool all = false;              ///< items that are not asked for are in the order, too
};

/// Asks for spans of 1 to `max_span` items, one in each stretch of span / probability items, at
/// least one item and not all of a session of two or more; a session of one asks for none. These
/// stand in a random order, and each sees those before it and all that are not asked for.
/// `num_context`: as above; these stand before all others. A pure function of seed, step and the
/// samples' indices.
ItemPermutation training_permutation(const at::Tensor& ids, const PermutationOptions& options,
                                     const nn::Context& context,
                                     const at::Tensor& num_context = {});

/// Asks for the items at `asked` [B, T] bool, and makes all other items visible to all positions.
ItemPermutation without_items(const at::Tensor& ids, const at::Tensor& asked);

/// Returns the last item of each session of two or more: the one that evaluation asks for.
at::Tensor last_item_mask(const at::Tensor& ids);

/// Positions [B] up to the last item: a row may end in padding.
at::Tensor session_lengths(const at::Tensor& ids);

}  // namespace convoy::masking
