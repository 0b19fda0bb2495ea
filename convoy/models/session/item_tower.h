#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "convoy/models/session/session.h"

// Shapes: V rows of the item embedding, I >= V items with padding, R of these that are scored, W
// width of the embedding, L most categories of an item, C numbers of an item, N targets.
namespace convoy::models {

/// Output matrix of one forward, and the states that it scores. Their backward hands over the
/// matrix's gradient once that is complete.
struct TowerScores {
  nn::ParamPtr table;  ///< [R, W]
  at::Tensor states;   ///< [N, W]
  at::Tensor places;   ///< [I] int64: rows of the table by id; undefined: the ids themselves
};

/// Vectors of items from their ids and features: the item's row of the embedding, the sum of the
/// rows of its categories, and a linear map, without bias, of its numbers. The row of the embedding
/// counts as zero for items that training did not see, and in training with id dropout for a share
/// of the items, drawn for each step: a pure function of seed, step and id.
class ItemTower {
 public:
  using Declare = std::function<nn::ParamPtr(nn::ParamSpec)>;

  /// Needs config.item_values. `ids`: the item embedding. Declares the others of its parameters.
  ItemTower(const SessionConfig& config, nn::ParamPtr ids, const Declare& declare);

  /// Parameters but the item embedding.
  const std::vector<nn::ParamPtr>& params() const { return params_; }

  /// Vectors [..., W] fp32 of items [...].
  at::Tensor rows(const at::Tensor& items, const nn::Context& context) const;

  /// Matrix of all vectors. In training with `known_only` it has padding and the items that
  /// training saw alone.
  TowerScores scores(const at::Tensor& states, bool known_only, const nn::Context& context) const;

  /// Vectors of all items [I, W], in the embedding's dtype, without autograd.
  at::Tensor table(const nn::Context& context) const;

 private:
  /// Constants on the device of the parameters.
  struct Constants {
    std::map<std::string, at::Tensor> categories;
    at::Tensor numbers, trained, kept, places;
  };
  const Constants& constants(at::Device device) const;
  /// [I] fp32: 1 where the row of the embedding counts; undefined: everywhere, and there are as
  /// many rows as items.
  at::Tensor factors(at::Device device, const nn::Context& context) const;
  /// Adds the gradient [R, W] of the vectors of `items` [R] (undefined: all) to the parameters'.
  void hand_over(const at::Tensor& grad, const at::Tensor& items, const at::Tensor& factors) const;
  at::Tensor own_rows(const at::Tensor& items, const nn::Context& context) const;

  std::shared_ptr<const ItemTowerValues> values_;
  double id_dropout_;
  bool all_trained_ = true, all_have_rows_ = true;
  nn::ParamPtr ids_;
  std::map<std::string, nn::ParamPtr> categories_;  // [cardinality, W]
  nn::ParamPtr numbers_;                            // [W, C]
  std::vector<nn::ParamPtr> params_;
  mutable Constants constants_;
  mutable at::Tensor drawn_;  // [I] fp32: items whose rows count in the step of seed and number
  mutable std::pair<uint64_t, int64_t> drawn_for_;
};

}  // namespace convoy::models
