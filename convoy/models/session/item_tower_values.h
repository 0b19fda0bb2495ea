#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

// Shapes: I items with padding, L most categories of an item, C numbers of an item.
namespace convoy::models {

/// Column of the item tower: a feature of items, not of events.
struct ItemTowerFeature {
  std::string name;
  int64_t cardinality = 0;  ///< categories with 0, none; 0: numbers
  int64_t width = 0;        ///< numbers of an item that has any
  /// Scale of a single number, by the items that training saw: (number - mean) / deviation is read.
  double mean = 0, deviation = 1;

  bool categorical() const { return cardinality > 0; }
};

/// Features of the items that a model ranks, of which it may have no embedding for the last ones.
struct ItemTowerValues {
  std::map<std::string, at::Tensor> categories;  ///< by feature [I, L] int64, 0 = none
  /// [I, C] fp32: of each feature its numbers, 0 where they are missing, and whether they are: 1
  /// where an item that training saw lacks them, too.
  at::Tensor numbers;
  /// [I] bool: items whose row of the embedding counts: training saw them, or they are padding.
  at::Tensor trained;

  int64_t num_items() const { return trained.size(0); }
};

}  // namespace convoy::models
