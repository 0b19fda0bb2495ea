#pragma once

#include <functional>
#include <string>
#include <vector>

#include "convoy/models/decoder/decoder.h"
#include "convoy/nn/documents.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::models {

/// Gated DeltaNet (Yang et al., 2024), which a layer of type `linear_attention` has in place of
/// attention: projections, a short convolution, the gated delta rule, and a gated normalisation.
/// Tensor ranks share out its heads of keys, each with the heads of values that it serves.
class DeltaMixer {
 public:
  using Declare = std::function<nn::ParamPtr(nn::ParamSpec spec)>;

  /// Declares the weights of layer `name`.
  DeltaMixer(const DecoderConfig& config, const std::string& name, const Declare& declare);

  /// Output for normalised states x [B, T, D], or for this rank's tokens of them.
  at::Tensor forward(const at::Tensor& x, const nn::Bundle& in, const nn::TensorRanks& ranks,
                     const nn::Context& context) const;

 private:
  /// Cuts of queries, of keys, of values and of numbers by head of values.
  struct Cuts {
    parallel::TensorCut keys, values, by_head;
  };

  /// Cut of queries, keys and values that are one matrix.
  parallel::TensorCut cut_of_columns(const Cuts& cuts) const;
  void declare_fused(const std::string& name, const Cuts& cuts, const Declare& declare);
  void declare_interleaved(const std::string& name, const Cuts& cuts, const Declare& declare);
  void declare_apart(const std::string& name, const Cuts& cuts, const Declare& declare);
  void declare_matrix(const std::string& name, int64_t out, const parallel::TensorCut& cut,
                      const Declare& declare);
  void declare_conv(const std::string& name, int64_t channels, const parallel::TensorCut& cut,
                    const Declare& declare);

  nn::DeltaHeads heads_here() const;
  /// Columns of queries, keys and values, of z, of b and of a, from `given` of the projections: in
  /// a tensor each where those of each head of keys are neighbours.
  std::vector<at::Tensor> by_kind(const std::vector<at::Tensor>& given) const;
  /// Convolved and activated queries, keys and values [B, T, columns], of projections `given`.
  at::Tensor convolved(const std::vector<at::Tensor>& given,
                       const std::vector<nn::DocumentPlace>& documents,
                       const nn::Context& context) const;

  nn::DeltaHeads heads_;
  int64_t hidden_, conv_width_;
  double deviation_, epsilon_;
  std::string activation_;
  bool doubles_beta_;
  bool interleaved_;
  std::vector<nn::DenseParams>
      inputs_;                       // of queries, keys and values; of z, b and a; or all in two
  std::vector<nn::ParamPtr> convs_;  // as many as projections of queries, keys and values
  nn::ParamPtr rate_, bias_, norm_;
  nn::DenseParams out_;
};

}  // namespace convoy::models
