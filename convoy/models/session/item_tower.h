#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "convoy/models/session/session.h"

// Shapes: V rows of the item embedding, I >= V items with padding, R of these that are scored, W
// width of the embedding, L most categories of an item, C numbers of an item, N targets.
namespace convoy::models {

/// Output matrix of one forward, and the states that it scores. The states' backward hands over the
/// matrix's gradient, once that is complete.
struct TowerScores {
  nn::ParamPtr table;  ///< [R, W]
  at::Tensor states;   ///< [N, W]
  at::Tensor places;   ///< [I] int64: rows of the table by id; undefined: the ids themselves
};

/// Makes vectors of items from their ids and features. A vector is the sum of the item's row of the
/// embedding, the rows of its categories, and a linear map, without bias, of its numbers. The row
/// of the embedding counts as zero for items that training did not see. In training with id dropout
/// it also counts as zero for a share of the items, drawn for each step: a pure function of seed,
/// step and id.
class ItemTower {
 public:
  using Declare = std::function<nn::ParamPtr(nn::ParamSpec)>;

  /// Declares the parameters but `ids`, the item embedding. Needs config.item_values.
  ItemTower(const SessionConfig& config, nn::ParamPtr ids, const Declare& declare);

  /// Parameters of the tower, without the item embedding.
  const std::vector<nn::ParamPtr>& params() const { return params_; }

  /// Returns vectors [..., W] fp32 of items [...] int64.
  at::Tensor rows(const at::Tensor& items, const nn::Context& context) const;

  /// Returns the matrix of all vectors for `states` [N, W]. With `known_only` it has only padding
  /// and the items that training saw.
  TowerScores scores(const at::Tensor& states, bool known_only, const nn::Context& context) const;

  /// Returns the vectors of all items [I, W], in the embedding's dtype, without autograd.
  at::Tensor table(const nn::Context& context) const;

 private:
  /// Values of the items on the device of the parameters.
  struct Constants {
    std::map<std::string, at::Tensor> categories;
    at::Tensor numbers, trained, kept, places;
  };
  const Constants& constants(at::Device device) const;
  /// Returns factors [I] fp32 of the rows of the embedding: 1 where the row counts, else 0.
  /// Undefined: all count, and there are as many rows as items.
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
