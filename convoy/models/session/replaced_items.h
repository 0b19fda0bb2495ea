#pragma once

#include <functional>
#include <string>

#include "convoy/models/session/session_embeddings.h"

// Shapes: B rows, T positions, N hidden items, D = d_model, E = width of the item embedding.
namespace convoy::models {

/// Draws the items that the discriminator of replaced token detection reads, from the scores of the
/// generator (Clark et al., "ELECTRA", 2020). Gives `generated` [N, E], which predicts the item of
/// each asked position. In training it draws an item for each asked position by its scores. It
/// embeds the session with these items in their places, and gives that as `hidden` [B, T, D], which
/// the discriminator reads. It also gives `replaced` [B, T] bool, which the discriminator should
/// tell (false where a draw hits the hidden item), and `generator_hidden` [B, T, D].
///
/// Draws are a pure function of the scores and of seed, step, sample and place in the row. On a GPU
/// they wait for the positions.
class ReplacedItems : public SessionEmbeddings {
 public:
  /// Takes the embeddings from `input`. Needs a config with masking rtd.
  ReplacedItems(const SessionConfig& config, const SessionEmbeddings& input);

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override;

  /// Table [ids, E] that scores `generated`: the item embedding, or a table of its own.
  const nn::ParamPtr& output_table() const { return output_; }

  /// Name that the column of a feature has in the bundle that this block reads.
  static std::string column_of(const std::string& feature) { return "column." + feature; }

 private:
  /// Draws ids [N] for `positions` [N] of `ids` [B, T], by the scores of `generated` [N, E].
  at::Tensor draw(const at::Tensor& generated, const at::Tensor& positions, const at::Tensor& ids,
                  const nn::Context& context) const;

  nn::DenseParams dense_;
  nn::NormParams norm_;
  nn::ParamPtr output_;
};

/// Gives each item, from the discriminator's state, a probability that it was replaced.
class ReplacementDetector {
 public:
  /// Declares parameters with `declare`, which belongs to the block that holds them.
  ReplacementDetector(const SessionConfig& config,
                      const std::function<nn::DenseParams(const std::string&, int64_t)>& declare);

  /// Returns the sum over sessions of the mean cross-entropy of their items, fp32 scalar. Each
  /// session counts as often as `num_asked` [B] says, so the sum compares with the generator's.
  at::Tensor loss(const nn::Bundle& in, const at::Tensor& num_asked) const;

 private:
  std::string activation_;
  nn::DenseParams dense_, prediction_;
};

/// Wraps a layer so that only training goes through it.
nn::BlockPtr make_training_only(const nn::BlockPtr& layer);

}  // namespace convoy::models
