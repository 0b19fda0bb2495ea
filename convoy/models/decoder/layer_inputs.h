#pragma once

#include <functional>
#include <optional>

#include "convoy/models/decoder/decoder.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::models {

/// Entry of a bundle with what all layers read beside the hidden states, layer by layer:
/// [B, T, L x P], or this rank's tokens of it.
inline constexpr const char* kLayerInputs = "layer_inputs";

/// Inputs of layers, each P wide (Gemma 3n's per-layer embeddings): rows of a second embedding,
/// plus a projection of the first one's, normalised by layer.
class LayerInputs {
 public:
  using Declare = std::function<nn::ParamPtr(nn::ParamSpec spec)>;

  LayerInputs(const DecoderConfig& config, const Declare& declare);

  /// Inputs of all layers for tokens `ids` [B, T], on the host `known`, whose hidden states begin
  /// as `x`.
  at::Tensor forward(const at::Tensor& ids, const at::Tensor& known, const at::Tensor& x,
                     const nn::TensorRanks& ranks, at::ScalarType compute) const;

 private:
  int64_t width_;   // P
  double shrinks_;  // factor of the projection
  double epsilon_;
  std::optional<int64_t> padding_;  // the row that no token trains
  nn::ParamPtr table_, norm_;
  nn::DenseParams projection_;
};

}  // namespace convoy::models
