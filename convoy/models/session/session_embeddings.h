#pragma once

#include "convoy/models/session/session_features.h"

// Shapes: B rows, T positions, D = d_model.
namespace convoy::models {

/// Input of a session model from features and places: the features' vectors, the vector that stands
/// for a session (`cls`), positions.
class SessionEmbeddings : public SessionFeatures {
 protected:
  SessionEmbeddings(const SessionConfig& config, const std::string& name);
  /// Shares the parameters of `first`, under another block name.
  SessionEmbeddings(const SessionEmbeddings& first, const std::string& name);

  /// Returns the joined features with cls in its place behind the session: x [B, T, D] (or a rank's
  /// share) where the ids [B, T] have room for it.
  at::Tensor with_cls(const at::Tensor& x, const at::Tensor& ids, const nn::TensorRanks& ranks,
                      const nn::Context& context) const;
  at::Tensor add_positions(const at::Tensor& x, const at::Tensor& ids, const nn::TensorRanks& ranks,
                           const nn::Context& context) const;
  /// Mask [B, T] bool of cls.
  at::Tensor cls_mask(const at::Tensor& ids, const nn::Context& context) const;

 private:
  /// Positions [B, T] int64 counted from the end: 0 for the last one that predicts, 1 for the one
  /// before.
  at::Tensor places_from_end(const at::Tensor& ids, const nn::Context& context) const;

  nn::ParamPtr cls_, positions_, token_types_;
  nn::NormParams norm_;
  nn::DenseParams mapping_;  // ALBERT's, of embeddings to states
  size_t num_params_ = 0;    // all of the above and the features'
};

}  // namespace convoy::models
