#pragma once

#include <string>
#include <vector>

#include "convoy/nn/block.h"
#include "convoy/nn/losses/sampled_loss_options.h"

// Shapes: N positions with a target, D model width, V vocabulary with padding, n negatives.
namespace convoy::nn {

/// Draws n of the ids first_id..V-1 for each step, without replacement, by systematic sampling
/// (Madow, 1949). Id k is among them with the probability min(1, c q_k) exactly; c makes the
/// probabilities add up to n.
///
/// Kinds of q:
/// - uniform;
/// - log-uniform: log((r + 2) / (r + 1)) / log(number of ids + 1) of rank r = k - first_id;
/// - proportional to given weights.
///
/// Log-uniform is for ids that are sorted by falling count.
class NegativeSampler {
 public:
  static const std::vector<std::string>& kinds();  ///< uniform, log_uniform, popularity

  /// Makes a sampler of `count` ids; all ids where `count` is as large as their number, or larger.
  NegativeSampler(int64_t first_id, int64_t num_ids, int64_t count, const std::string& kind);
  /// Makes a sampler by weights above 0, of the ids first_id..V-1 in this order.
  NegativeSampler(int64_t first_id, const std::vector<double>& weights, int64_t count);

  int64_t count() const { return count_; }
  /// Returns the ids against which all targets of a step compete, [n] int64, ascending, all
  /// different. They are a pure function of seed and step, so all ranks and micro-batches have the
  /// same.
  at::Tensor draw(uint64_t seed, int64_t step) const;
  double probability(int64_t id) const;
  /// Returns the logarithms of the probabilities of `ids` int64, in fp32, on their device.
  at::Tensor log_probabilities(const at::Tensor& ids) const;

 private:
  /// Returns the sum of the probabilities of the ranks below `rank`.
  double cumulative(int64_t rank) const;

  int64_t first_id_, num_ids_, count_;
  bool log_uniform_ = false;
  int64_t certain_ = 0;  ///< ranks whose probability is one
  double factor_ = 1;    ///< c
  /// Sums of cumulative() for each rank, and the logarithms of the probabilities in fp32, where
  /// weights are given; else empty and undefined.
  std::vector<double> below_;
  mutable at::Tensor logs_;  // on the device that asked last
};

/// Items against which all targets [N] of a loss compete, and how much scores are lowered. They are
/// lowered by the logarithm of how likely, or how often, an item is among the negatives.
struct SampledNegatives {
  at::Tensor ids;         ///< [n] int64, all different
  at::Tensor lowered;     ///< [n] fp32
  at::Tensor of_targets;  ///< [N] fp32
};

/// Returns the sum, fp32 scalar, of the cross-entropies of h [N, D] against each row's target and
/// the negatives. Scores are lowered, the target's too. A row's target is not among its negatives.
/// `targets` are [N] int64.
///
/// Backward adds to n + N rows of the table at most.
at::Tensor sampled_cross_entropy(const at::Tensor& h, const ParamPtr& table,
                                 const at::Tensor& targets, const SampledNegatives& negatives,
                                 const SampledLossOptions& options, const Context& context);

/// Returns sampled_cross_entropy() with negatives that a sampler draws for the step. Scores are
/// lowered by the logarithms of their probabilities (Jean et al., 2015; Bengio and Senecal, 2008).
/// With all ids it is cross_entropy().
at::Tensor sampled_cross_entropy(const at::Tensor& h, const ParamPtr& table,
                                 const at::Tensor& targets, const NegativeSampler& sampler,
                                 const SampledLossOptions& options, const Context& context);

}  // namespace convoy::nn
