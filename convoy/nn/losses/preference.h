#pragma once

#include <string>
#include <vector>

#include "convoy/nn/losses/cross_entropy.h"

// Direct preference optimization (Rafailov et al., 2023). Shapes: B pairs of a chosen and a
// rejected answer, N targets of both.
namespace convoy::nn {

/// Column of a batch with the log-probabilities of the reference, [B, 2] double: of the chosen
/// answer and of the rejected one.
inline constexpr const char* kReferenceLogProbs = "reference_log_probs";

/// Losses of a pair, by TRL's names; m is beta times the margin by which the log-probability of the
/// chosen answer rose above the reference's more than that of the rejected one.
struct PreferenceOptions {
  /// sigmoid: -(1 - s) log sigmoid(m) - s log sigmoid(-m), where s is the label smoothing; robust:
  /// -(1 - s) log sigmoid(m) + s log sigmoid(-m), over 1 - 2 s; ipo: (margin of the means over each
  /// answer's targets - 1 / (2 beta)) squared.
  std::string loss_type = "sigmoid";
  double beta = 0.1;
  double label_smoothing = 0;

  static const std::vector<std::string>& loss_types();
};

/// Answers that targets belong to.
struct PreferencePairs {
  at::Tensor answers;    ///< [N] int64 of each target: twice its pair, and one more if rejected
  at::Tensor reference;  ///< [B, 2] double
};

struct PreferenceLoss {
  at::Tensor loss;       ///< sum over the pairs, fp32 scalar
  at::Tensor metrics;    ///< [6] double: sums over the pairs of preference_metrics()
  at::Tensor log_probs;  ///< [B, 2] double, of the model
};

/// Names of PreferenceLoss::metrics, as TRL logs their means.
const std::vector<std::string>& preference_metrics();

/// Loss of pairs whose log-probabilities are those that h [N, D] and `table` give the targets, as
/// in cross_entropy(): so its gradient is that of a cross-entropy with a weight for each target. An
/// answer's weight is known once all of its targets are: where `table` learns, the scores are made
/// twice. Where it is frozen, the gradient of `h` alone is wanted, and is weighted afterwards.
PreferenceLoss preference_loss(const at::Tensor& h, const ParamPtr& table,
                               const at::Tensor& targets, const PreferencePairs& pairs,
                               const PreferenceOptions& options, CrossEntropyOptions scores);

}  // namespace convoy::nn
