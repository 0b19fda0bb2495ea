#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

// Shapes: I items with padding, L most categories of an item, C numbers of an item.
namespace convoy::models {

/// Column of the item tower: a feature of items, not of events.
struct ItemTowerFeature {
  std::string name;
  int64_t cardinality = 0;  ///< number of categories, 0 (none) too; 0: it is numbers
  int64_t width = 0;        ///< length of an item's numbers, where it has any
  /// Scale of a single number, by the items that training saw: the tower reads (number - mean) /
  /// deviation.
  double mean = 0, deviation = 1;

  bool categorical() const { return cardinality > 0; }
};

/// Features of the items that a model ranks. The last items may have no row of the item embedding.
struct ItemTowerValues {
  std::map<std::string, at::Tensor> categories;  ///< by feature: ids [I, L] int64, 0 = none
  /// Numbers of the items [I, C] fp32: for each feature its numbers, 0 where they are missing, and
  /// then a flag. The flag is 1 where an item lacks them, if an item that training saw lacks them,
  /// too.
  at::Tensor numbers;
  /// Mask [I] bool of the items whose row of the embedding counts: items that training saw, and
  /// padding.
  at::Tensor trained;

  int64_t num_items() const { return trained.size(0); }
};

}  // namespace convoy::models
