#pragma once

#include "convoy/models/session/masking.h"
#include "convoy/models/session/session_features.h"

namespace convoy::models {

/// Columns to hidden states: embeds and joins the features, hides items where the model is trained
/// on hidden ones, adds positions. Gives `hidden` [B, T, D] (or a rank's share), `item_ids` [B, T],
/// `asked` [N] (flat positions that predict; without masked items not in prediction), with masked
/// items `key_mask` [B, T] bool (what is real); with permuted ones `query` [B, T, D] (no item's,
/// for XLNet's second stream) and `visible` [B, T, T] bool (which items a position sees) instead;
/// for XLNet what put_xlnet_guides() adds. Columns to be predicted pass through.
/// Prediction with masked items appends a position, so T grows by one.
class SessionInput : public SessionFeatures {
 public:
  explicit SessionInput(const SessionConfig& config);

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override;
  bool takes_tensor_ranks() const override { return true; }
  bool takes_sequence_parallel() const override { return !config_.permutes(); }

 private:
  Permutation permutation(const at::Tensor& known, const nn::Context& context) const;
  at::Tensor add_positions(const at::Tensor& x, const at::Tensor& ids, const nn::TensorRanks& ranks,
                           const nn::Context& context) const;
  /// [B, T] int64: 0 for the last position that predicts, 1 for the one before.
  at::Tensor places_from_end(const at::Tensor& ids, const nn::Context& context) const;

  nn::DenseParams mapping_;           // ALBERT's, of embeddings to states
  nn::ParamPtr masked_item_, query_;  // in the place of hidden items; of no item
  nn::ParamPtr positions_, token_types_;
  nn::NormParams norm_;
};

}  // namespace convoy::models
