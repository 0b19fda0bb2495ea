#pragma once

#include <map>
#include <string>
#include <vector>

#include "convoy/nn/block.h"
#include "convoy/nn/losses/sampled_loss_options.h"

// Shapes: N positions with a target, W width of the scoring table, V item ids with padding, n
// negatives of each target.
namespace convoy::nn {
struct CrossEntropyOptions;
}

namespace convoy::models {

struct SessionConfig;

/// Targets of a loss, and the items that each of them competes with.
struct TargetsWithNegatives {
  at::Tensor states;     ///< [N, W]
  nn::ParamPtr table;    ///< [V, W], whose products with states are scores
  at::Tensor targets;    ///< [N] int64
  at::Tensor negatives;  ///< [N, n] int64
  nn::SampledLossOptions common;
};

/// Targets of a loss in which all items compete with each of them.
struct TargetsAmongAll {
  at::Tensor states;   ///< [N, W]
  nn::ParamPtr table;  ///< [V, W], whose products with states are scores
  at::Tensor targets;  ///< [N] int64
  const nn::CrossEntropyOptions& options;
};

/// Option of one loss: a number of SessionConfig::loss_options.
struct LossOption {
  std::string name;
  double initial;
  std::string help;
  double low, high;  ///< inclusive
};

/// Next-item loss: a value of the option `loss`. One of its functions computes it in training; an
/// evaluation reports the cross-entropy over all items, whatever the loss.
struct NextItemLoss {
  std::string name, help;
  /// Returns the sum over the targets, fp32 scalar, of a loss that scores all items; null: of one
  /// that scores negatives.
  at::Tensor (*among_all)(const SessionConfig& config, const TargetsAmongAll& of,
                          const nn::Context& context) = nullptr;
  /// Returns the sum over the targets, fp32 scalar, of a loss that scores each target and negatives
  /// drawn for it; null: of one that scores all items.
  at::Tensor (*with_negatives)(const SessionConfig& config, const TargetsWithNegatives& of,
                               const nn::Context& context) = nullptr;
  std::vector<LossOption> options = {};
};

/// Next-item losses. The first is the default, cross-entropy over all items, which
/// label_smoothing_factor smooths and sampled_softmax approximates.
const std::vector<NextItemLoss>& next_item_losses();

std::vector<std::string> next_item_loss_names();

/// Returns a loss by name. Throws UsageError for a name that there is not.
const NextItemLoss& next_item_loss(const std::string& name);

/// Names of the losses that draw negatives for each target.
std::vector<std::string> losses_with_negatives();

/// Values of the options of all losses, by name, before a user gives others.
std::map<std::string, double> initial_loss_options();

}  // namespace convoy::models
