#pragma once

#include <functional>
#include <string>

#include "convoy/models/session/session_embeddings.h"

// Shapes: B rows, T positions, N hidden items, D = d_model, E = width of the item embedding.
namespace convoy::models {

/// Between generator and discriminator of replaced token detection (Clark et al., "ELECTRA", 2020).
/// Gives `generated` [N, E], what predicts the item of each asked position. In training it draws an
/// item for each by its scores, and gives the session with these in their places as the hidden
/// states of the discriminator, `replaced` [B, T] bool, what it should tell (a draw that hits the
/// hidden item is none), and `generator_hidden` [B, T, D].
///
/// Draws are a pure function of the scores and of seed, step, sample and place in the row. On a GPU
/// they wait for the positions.
class ReplacedItems : public SessionEmbeddings {
 public:
  /// Needs a config with masking rtd. The embeddings are those of the input.
  ReplacedItems(const SessionConfig& config, const SessionEmbeddings& input);

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override;

  /// [ids, E]: what `generated` is scored by, the item embedding or its own.
  const nn::ParamPtr& output_table() const { return output_; }

  /// A feature's column in the bundle that it reads.
  static std::string column_of(const std::string& feature) { return "column." + feature; }

 private:
  /// [N] ids for the positions [N] of `ids` [B, T] that `generated` [N, E] scores.
  at::Tensor draw(const at::Tensor& generated, const at::Tensor& positions, const at::Tensor& ids,
                  const nn::Context& context) const;

  nn::DenseParams dense_;
  nn::NormParams norm_;
  nn::ParamPtr output_;
};

/// Tells which items were replaced: from the discriminator's states, a probability each.
class ReplacementDetector {
 public:
  /// Declares its parameters by `declare`, which belongs to the block that holds it.
  ReplacementDetector(const SessionConfig& config,
                      const std::function<nn::DenseParams(const std::string&, int64_t)>& declare);

  /// The sum over sessions of the mean cross-entropy of their items, each as often as `num_asked`
  /// [B] says, so that it compares with the generator's. fp32 scalar.
  at::Tensor loss(const nn::Bundle& in, const at::Tensor& num_asked) const;

 private:
  std::string activation_;
  nn::DenseParams dense_, prediction_;
};

/// A layer that only training goes through.
nn::BlockPtr make_training_only(const nn::BlockPtr& layer);

}  // namespace convoy::models
