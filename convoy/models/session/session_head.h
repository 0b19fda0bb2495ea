#pragma once

#include <optional>

#include "convoy/models/session/in_batch_negatives.h"
#include "convoy/models/session/item_tower.h"
#include "convoy/models/session/replaced_items.h"
#include "convoy/models/session/session.h"
#include "convoy/models/session/session_targets.h"
#include "convoy/nn/losses/left_out.h"
#include "convoy/nn/losses/sampled_softmax.h"

namespace convoy::models {

/// Head that turns hidden states into loss, rank of the target, or scores.
class SessionHead : public nn::Block {
 public:
  /// Takes the output matrix `output` [ids, width] of another block; null: the head's own. `tower`
  /// makes the matrix from it; may be null.
  SessionHead(const SessionConfig& config, const nn::ParamPtr& output,
              std::shared_ptr<const ItemTower> tower);

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override;
  at::Tensor rows_read(const nn::Param& table, const nn::Bundle& batch,
                       const nn::Context& context) override;
  bool collects_ids() const override { return in_batch_.has_value(); }
  at::Tensor told_ids(const nn::Bundle& batch, const nn::Context& context) override;
  bool takes_tensor_ranks() const override { return !tower_; }
  const nn::ParamPtr& output_matrix() const { return items_; }
  const std::shared_ptr<const ItemTower>& item_tower() const { return tower_; }
  bool takes_sequence_parallel() const override {
    return !samples() && !tower_ && !targets_ && !detector_ && config_.label_smoothing_factor == 0;
  }

 private:
  /// Flat positions [N] whose states predict, the items [N] they should predict, and the factors
  /// [N] of their losses (undefined: 1).
  struct Targets {
    at::Tensor positions, items, weights;
  };
  nn::Bundle next_items(const nn::Bundle& in, const Targets& targets,
                        const nn::Context& context) const;
  Targets targets_of(const nn::Bundle& in, const nn::Context& context) const;
  /// Items that are no candidates in an evaluation.
  nn::LeftOut left_out_of(const nn::Bundle& in, const Targets& targets) const;
  /// States [N, ...] that predict the targets.
  at::Tensor asked_states(const nn::Bundle& in, const Targets& targets) const;
  at::Tensor normed(const at::Tensor& rows) const;
  at::Tensor states(const at::Tensor& rows) const;
  /// Whether training scores some items only.
  bool samples() const { return config_.sampled_softmax || config_.has_own_negatives(); }
  /// Negatives of each target under a loss that draws them for it, [N, n_negatives] ids.
  at::Tensor own_negatives(const at::Tensor& ids, const at::Tensor& positions,
                           const at::Tensor& items, const nn::Context& context) const;
  at::Tensor sampled_loss(const nn::Bundle& in, const TowerScores& scored, const Targets& targets,
                          const nn::Context& context) const;
  /// States [N, W], and the matrix that scores them.
  TowerScores scored(const at::Tensor& states, bool known_only, const nn::Context& context) const;

  SessionConfig config_;
  nn::NormParams norm_;  // some bodies end in one
  double epsilon_;
  nn::ParamPtr output_projection_, items_;
  std::shared_ptr<const ItemTower> tower_;
  int64_t first_id_;
  std::optional<SessionTargets> targets_;  // of whole sessions
  std::optional<ReplacementDetector> detector_;
  std::optional<nn::NegativeSampler> sampler_;  // of the items that training scores
  std::optional<InBatchNegatives> in_batch_;    // or the targets
};

}  // namespace convoy::models
