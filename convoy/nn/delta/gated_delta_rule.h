#pragma once

#include "convoy/nn/block.h"
#include "convoy/nn/delta/delta_heads.h"
#include "convoy/nn/documents.h"

// Shapes: B rows, T positions, H heads of values, E and V widths of a head of keys and of values.
namespace convoy::nn {

struct DeltaOptions {
  DeltaHeads heads;                      ///< of this rank
  std::vector<DocumentPlace> documents;  ///< each begins without a state; empty: rows are whole
  at::Tensor* state = nullptr;           ///< [B, H, E, V] fp32 before and after; may be undefined
};

/// The gated delta rule (Yang et al., 2024): linear attention whose state forgets by `decay` and
/// is corrected by each key.
///
/// `mixed` [B, T, columns] holds queries, keys and values side by side; queries and keys are
/// normalised to length 1 first. `decay` and `beta` are [B, T, H] fp32, decay as a logarithm.
/// Returns [B, T, H, V] in the dtype of `mixed`; padding between documents gives zeros. Time and
/// memory are linear in T. Backward keeps the inputs and the state at every 512th position.
at::Tensor gated_delta_rule(const at::Tensor& mixed, const at::Tensor& decay,
                            const at::Tensor& beta, const DeltaOptions& options);

/// Logarithm of what a state keeps from a position to the next, [..., H] fp32: -e^`rate` times the
/// softplus of `steps` [..., H] plus `bias`.
at::Tensor delta_decay(const at::Tensor& steps, const ParamPtr& rate, const ParamPtr& bias);

}  // namespace convoy::nn
