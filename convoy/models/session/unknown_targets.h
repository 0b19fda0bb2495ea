#pragma once

#include "convoy/models/session/session.h"

// Shapes: B rows, T positions.
namespace convoy::models {

/// Key in a bundle of the rows [B] bool of an evaluation whose last item no summary of a session
/// reads.
inline constexpr const char* kUnknownTarget = "unknown_target";

/// Mask [B] bool, on the device of `known` [B, T], of rows of an evaluation whose last item, the
/// target, is among SessionConfig::unseen_items or missed (kMissed of the batch). Predictions skip
/// such items, so predictions of whole sessions must not depend on them. Undefined where there can
/// be none, and for models without such targets.
at::Tensor unknown_targets(const SessionConfig& config, const at::Tensor& known,
                           const nn::Bundle& batch, const nn::Context& context);

/// kMissed of the batch where it was loaded [B] bool, on the device of `known`; undefined: no row.
at::Tensor missed_rows(const at::Tensor& known, const nn::Bundle& batch,
                       const nn::Context& context);

/// Returns `ids` [B, T] without the last item of the rows `without` [B] bool.
at::Tensor without_last(const at::Tensor& ids, const at::Tensor& without);

}  // namespace convoy::models
