#pragma once

#include <string>
#include <vector>

#include "convoy/nn/block.h"

// Shapes: N positions with a target, D model width, V vocabulary with padding, n negatives.
namespace convoy::nn {

/// Draws n of the ids first_id..V-1 for each step, without replacement, by systematic sampling
/// (Madow, 1949): id k is among them with the probability min(1, c q_k) exactly, where q is
/// uniform, or log-uniform: log((r + 2) / (r + 1)) / log(number of ids + 1) of rank r = k -
/// first_id, for ids that are sorted by falling count, or proportional to given weights. c makes
/// the probabilities add up to n.
class NegativeSampler {
 public:
  static const std::vector<std::string>& kinds();  ///< uniform, log_uniform, popularity

  /// All ids where `count` is as large as their number, or larger.
  NegativeSampler(int64_t first_id, int64_t num_ids, int64_t count, const std::string& kind);
  /// By weights above 0, of the ids first_id..V-1 in this order.
  NegativeSampler(int64_t first_id, const std::vector<double>& weights, int64_t count);

  int64_t count() const { return count_; }
  /// Ids against which all targets of a step compete, [n] int64, ascending, all different: a pure
  /// function of seed and step, so all ranks and micro-batches have the same.
  at::Tensor draw(uint64_t seed, int64_t step) const;
  double probability(int64_t id) const;
  /// The logarithms of the probabilities of `ids` int64, fp32, on their device.
  at::Tensor log_probabilities(const at::Tensor& ids) const;

 private:
  /// Sum of the probabilities of the ranks below `rank`.
  double cumulative(int64_t rank) const;

  int64_t first_id_, num_ids_, count_;
  bool log_uniform_ = false;
  int64_t certain_ = 0;  ///< ranks whose probability is one
  double factor_ = 1;    ///< c
  /// Cumulative() of each rank and the logarithms of the probabilities, fp32, where weights are
  /// given; else empty and undefined.
  std::vector<double> below_;
  mutable at::Tensor logs_;  // on the device that asked last
};

/// Items against which all targets [N] of a loss compete, and how much scores are lowered: by the
/// logarithm of how likely, or how often, an item is among the negatives.
struct SampledNegatives {
  at::Tensor ids;         ///< [n] int64, all different
  at::Tensor lowered;     ///< [n] fp32
  at::Tensor of_targets;  ///< [N] fp32
};

struct SampledSoftmaxOptions {
  double temperature = 1;   ///< divides the scores
  at::Tensor weights = {};  ///< [N] fp32: factor of each row's loss; undefined: 1
};

/// The sum of the cross-entropies of h [N, D] against each row's target and the negatives, whose
/// scores are lowered, the target's too. A row's target is not among its negatives. fp32 scalar.
///
/// Backward adds to n + N rows of the table at most. targets [N] int64.
at::Tensor sampled_cross_entropy(const at::Tensor& h, const ParamPtr& table,
                                 const at::Tensor& targets, const SampledNegatives& negatives,
                                 const SampledSoftmaxOptions& options, const Context& context);

/// As above with negatives that a sampler draws for the step, by the logarithms of their
/// probabilities (Jean et al., 2015; Bengio and Senecal, 2008). With all ids it is cross_entropy().
at::Tensor sampled_cross_entropy(const at::Tensor& h, const ParamPtr& table,
                                 const at::Tensor& targets, const NegativeSampler& sampler,
                                 const SampledSoftmaxOptions& options, const Context& context);

}  // namespace convoy::nn
