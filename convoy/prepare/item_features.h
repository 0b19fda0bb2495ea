#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "convoy/prepare/features.h"

namespace convoy::prepare {

/// Files of a data folder, or of a run, with the features of each item: a table with a row for each
/// id, and the list of its columns.
inline constexpr const char *kItemFeaturesFile = "item_features.parquet",
                            *kItemFeaturesInfo = "item_features.json";
/// Column of that table with the item's id. No feature may have this name.
inline constexpr const char* kItemFeatureId = "id";

/// Kinds of item features: categories, of which an item may have several, one number, or a vector.
enum class ItemKind { Categorical, Continuous, Vector };

/// Returns the word of a kind, as options and item_features.json spell it.
const char* name_of(ItemKind kind);

/// Values of one feature, by item.
struct ItemFeature {
  std::string name;
  ItemKind kind = ItemKind::Categorical;
  FeatureScale scale = {};               ///< scale that the numbers already have
  std::vector<std::string> values = {};  ///< raw categories, by id - 1
  int64_t width = 1;                     ///< length of an item's numbers, where it has any
  std::vector<int64_t> ids = {};         ///< categories of all items, one item after the other
  std::vector<float> numbers = {};       ///< numbers of all items alike, for the other kinds
  std::vector<int64_t> ends = {};        ///< end of each item in these, by id - 1

  int64_t num_items() const { return std::ssize(ends); }
  bool is_missing(int64_t id) const { return begin(id) == end(id); }
  /// Returns the ids of an item's categories, ascending, each once.
  std::span<const int64_t> ids_of(int64_t id) const;
  /// Returns the numbers of an item: `width` or none.
  std::span<const float> numbers_of(int64_t id) const;
  /// Ends the next item.
  void end_item();
  /// Adds the next item, with the values that item `id` of another feature like this one has.
  void add_item_of(const ItemFeature& other, int64_t id);

 private:
  int64_t begin(int64_t id) const { return id < 2 ? 0 : ends[static_cast<size_t>(id - 2)]; }
  int64_t end(int64_t id) const { return ends[static_cast<size_t>(id - 1)]; }
};

/// Features of the items 1, 2, ...
struct ItemFeatures {
  std::vector<ItemFeature> features;

  bool empty() const { return features.empty(); }
  int64_t num_items() const { return empty() ? 0 : features.front().num_items(); }
  const ItemFeature* find(const std::string& name) const;

  /// Reads `table` and `info`, which are kItemFeaturesFile and kItemFeaturesInfo. Throws FileError
  /// for files that are not what write_item_features() wrote.
  static ItemFeatures load(const std::filesystem::path& table, const std::filesystem::path& info);
};

/// Writes the table to `file`, and returns the text of kItemFeaturesInfo. Messages speak of
/// `shown`, the name that the table is to have in the end.
std::string write_item_features(const ItemFeatures& features, const std::filesystem::path& file,
                                const std::filesystem::path& shown);

}  // namespace convoy::prepare
