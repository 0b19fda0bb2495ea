#pragma once

#include <functional>
#include <string>
#include <vector>

#include "convoy/models/decoder/decoder.h"
#include "convoy/nn/experts/experts.h"

namespace convoy::models {

/// Feed-forward of a decoder's layer in which each token goes through a few experts, and, where the
/// family has one, through an expert that all tokens share.
class DecoderExperts {
 public:
  /// Declares a parameter of a layer: its name there, its shape and how tensor ranks cut it.
  using Declare = std::function<nn::ParamPtr(const std::string& leaf, std::vector<int64_t> shape,
                                             const parallel::TensorCut& cut)>;

  DecoderExperts(const DecoderConfig& config, const Declare& declare);

  /// Result for the normalised states x [B, T, D], or for this rank's tokens [n, D]. In training
  /// and evaluation adds to kRoutingSums of `out`, a bundle with the batch's masks.
  at::Tensor forward(const at::Tensor& x, const nn::TensorRanks& ranks, const nn::Context& context,
                     nn::Bundle& out) const;
  /// Computes with other ranks' tokens alone (Block::serve). Returns no states, [0, D].
  at::Tensor serve(const nn::Context& context) const;

 private:
  void declare_stacks(const DecoderConfig& config, const Declare& declare);
  void declare_each(const DecoderConfig& config, const Declare& declare);
  at::Tensor of_experts(const nn::Operand& read, const nn::Routing& routing,
                        const nn::TensorRanks& ranks, const nn::ExpertRanks& dealt) const;
  void add_sums(const nn::Routing& routing, const nn::TensorRanks& ranks, nn::Bundle& out) const;

  std::string activation_;
  int64_t num_chosen_;
  nn::RoutingWeights weights_;
  nn::DenseParams router_;
  std::vector<nn::ExpertParams> experts_;
  nn::ExpertStacks stacks_;     // in place of experts_, where that is empty
  nn::ParamPtr shared_router_;  // null: there is no shared expert
  nn::ExpertParams shared_;
};

}  // namespace convoy::models
