#pragma once

#include <map>
#include <string>

#include "convoy/models/session/item_tower.h"
#include "convoy/models/session/session.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::models {

/// Joins the features of a session model to one vector per position.
class SessionFeatures : public nn::Block {
 public:
  at::Tensor rows_read(const nn::Param& table, const nn::Bundle& batch,
                       const nn::Context& context) override;
  const nn::ParamPtr& item_table() const { return tables_.at(config_.item_feature); }
  /// Vectors of items by their features, too; null: the item table has them.
  const std::shared_ptr<const ItemTower>& item_tower() const { return tower_; }

 protected:
  SessionFeatures(const SessionConfig& config, const std::string& name);
  /// Uses the parameters of `of`, which it does not tie yet.
  SessionFeatures(const SessionFeatures& of, const std::string& name);

  /// Joined vectors [B, T, D] (or a rank's share) of the columns [B, T].
  at::Tensor joined(const nn::Bundle& in, const nn::TensorRanks& ranks,
                    const nn::Context& context) const;

  SessionConfig config_;  ///< its features by name

 private:
  /// Soft embedding of a number: a mixture of learned vectors.
  struct Soft {
    nn::DenseParams weights;  ///< number to scores of the vectors
    nn::ParamPtr table;       ///< [vectors, width]
  };

  bool is_number(const SessionFeature& feature) const {
    return feature.is_number() && !config_.soft_embeddings;
  }
  /// Column [B, T], or [B, T, W] of vectors. One value a session is repeated at all positions.
  at::Tensor column(const nn::Bundle& in, const SessionFeature& feature,
                    const nn::Context& context) const;
  at::Tensor with_noise(const at::Tensor& given, const at::Tensor& ids,
                        const SessionFeature& feature, const nn::Context& context) const;
  /// Vectors of a feature's values, one for each.
  at::Tensor vectors_of(const at::Tensor& values, const SessionFeature& feature,
                        const nn::TensorRanks& ranks, const nn::Context& context) const;
  at::Tensor soft(const at::Tensor& numbers, const Soft& embedding,
                  const nn::TensorRanks& ranks) const;
  /// Returns a feature's vectors after normalisation and dropout, as far as the config has them.
  at::Tensor regular(const at::Tensor& vectors, const std::string& feature, int64_t index,
                     const nn::TensorRanks& ranks, const nn::Context& context) const;
  int64_t declare_feature(const SessionFeature& feature);
  void declare_normed(const std::string& feature, int64_t width);

  std::map<std::string, nn::ParamPtr> tables_;
  std::shared_ptr<const ItemTower> tower_;
  std::map<std::string, Soft> soft_;
  std::map<std::string, nn::DenseParams> vector_projections_;
  std::map<std::string, nn::NormParams> norms_;
  nn::DenseParams continuous_, projection_;
};

}  // namespace convoy::models
