#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "convoy/prepare/item_features.h"
#include "convoy/prepare/items.h"

namespace convoy::prepare {

/// Column of a table of items that becomes a feature of the items.
struct ItemColumn {
  std::string name;
  std::optional<ItemKind> kind = {};  ///< none: the column's type says it
  FeatureScale scale = {};            ///< scale of numbers
  std::string separator = {};         ///< separates categories in one text; "" = there is one
  bool may_be_empty = false;          ///< an earlier preparation has values of it
};

/// Parses "genre:split,brand,price:log1p,picture:vector", and "genre:split=;" for another separator
/// than |. Throws UsageError.
std::vector<ItemColumn> parse_item_columns(const std::string& text);

/// Table with a row for each item, and the columns that are kept by item.
struct ItemTable {
  std::filesystem::path file;  ///< CSV, TSV (also .gz) or Parquet; "" = none
  std::string key;             ///< its column of raw ids; "" = the usual names
  std::vector<ItemColumn> columns = {};
};

/// Features of the items of a table: one item for each of its rows, in the order of `raw_ids`.
struct TableFeatures {
  std::vector<std::string> raw_ids;
  ItemFeatures features;  ///< categories are numbered by their first row
  std::vector<std::string> warnings = {};
};

/// Reads the columns of a table.
///
/// Lists of a Parquet file are several categories, or, where they hold fractions, a vector. So are
/// RecBole's token_seq and float_seq in text, whose entries stand between spaces. Vectors in other
/// text stand between spaces, commas or semicolons, in brackets or not.
///
/// Throws FileError that names file, column and row for ids that are there twice or missing, values
/// of another kind, and vectors that differ in length.
TableFeatures read_item_table(const ItemTable& table);

/// Returns the features of the items of a vocabulary, of which the rows of `table` have some.
///
/// `earlier` has the features of an earlier preparation, from the file `earlier_name`. Its
/// categories keep their ids. Its items keep their values where the table has no row of them. New
/// categories come by falling number of items, equal ones by raw value.
///
/// Throws FileError where `earlier` has another kind, width or scale of a feature, or lacks one.
ItemFeatures features_by_id(const TableFeatures& table, const std::vector<Item>& items,
                            const ItemFeatures& earlier, const std::string& earlier_name);

}  // namespace convoy::prepare
