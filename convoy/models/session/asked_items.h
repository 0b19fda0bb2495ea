#pragma once

#include "convoy/masking/item_masking.h"
#include "convoy/models/session/session.h"

// Shapes: B rows, T positions.
namespace convoy::models {

/// Returns the items `ids` [B, T] from the batch on the host where it was loaded: reading them
/// waits for no GPU.
at::Tensor loaded_items(const SessionConfig& config, const at::Tensor& ids,
                        const nn::Context& context);

/// kNumContext of a batch of training [B] where it was loaded, else in `in`; undefined: no row has
/// any.
at::Tensor loaded_context(const nn::Bundle& in, const nn::Context& context);

/// Mask [B, T] bool of the positions that predict, of items `known` [B, T]. In prediction that is
/// the last item or, with masked items, the position behind it. Not for permuted items.
/// `num_context`: loaded_context().
at::Tensor asked_items(const SessionConfig& config, const at::Tensor& known,
                       const nn::Context& context, const at::Tensor& num_context);

masking::PermutationOptions permutation_options(const SessionConfig& config);

/// Flat positions [N] of the items that training predicts in a loaded batch, permuted or not.
at::Tensor training_targets(const SessionConfig& config, const nn::Bundle& batch,
                            const nn::Context& context);

/// Mask [B, T] bool of the last item, or in prediction of the position behind it.
at::Tensor asked_item(const at::Tensor& ids, const nn::Context& context);

/// Mask [B, T] bool of the items with a successor.
at::Tensor has_successor(const at::Tensor& ids);

}  // namespace convoy::models
