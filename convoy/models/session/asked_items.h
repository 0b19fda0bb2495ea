#pragma once

#include "convoy/masking/item_masking.h"
#include "convoy/models/session/session.h"

// Shapes: B rows, T positions.
namespace convoy::models {

/// Items `ids` [B, T] of a batch where they were loaded: reading them waits for no GPU.
at::Tensor loaded_items(const SessionConfig& config, const at::Tensor& ids,
                        const nn::Context& context);

/// kNumContext of a batch of training [B] where it was loaded, else in `in`; undefined: no row has
/// any.
at::Tensor loaded_context(const nn::Bundle& in, const nn::Context& context);

/// [B, T] bool: positions that predict, of items `known` [B, T]. In prediction that is the last
/// item, with masked items the position behind it. Not of permuted items. `num_context`:
/// loaded_context().
at::Tensor asked_items(const SessionConfig& config, const at::Tensor& known,
                       const nn::Context& context, const at::Tensor& num_context);

masking::PermutationOptions permutation_options(const SessionConfig& config);

/// Flat places [N] of the items that training asks for in a batch that was loaded, permuted or not.
at::Tensor training_targets(const SessionConfig& config, const nn::Bundle& batch,
                            const nn::Context& context);

/// [B, T] bool: the last item, or in prediction the position behind it.
at::Tensor asked_item(const at::Tensor& ids, const nn::Context& context);

/// [B, T] bool: the items that another one follows.
at::Tensor has_successor(const at::Tensor& ids);

}  // namespace convoy::models
