#pragma once

// Internal to the component: features of items that a preparation keeps by item.

#include <vector>

#include "convoy/prepare/item_table.h"
#include "convoy/prepare/sessions.h"
#include "convoy/prepare/sessions_files.h"

namespace convoy::prepare {

/// Features of the items of a preparation, from its table and from the earlier preparation whose
/// ids it keeps.
class SessionItemTower {
 public:
  /// Reads the table and the earlier preparation's features. Columns whose kind is not given have
  /// that of the earlier preparation. Throws UsageError for columns without a table and where a
  /// feature of the earlier preparation is left out, and FileError as read_item_table() and
  /// ItemFeatures::load() do.
  explicit SessionItemTower(const SessionOptions& options);

  /// Adds items of the table that `items` lacks, with ids behind the others, in the order of the
  /// table. Returns their number. Throws FileError where the table has none of the items, and there
  /// is no earlier preparation.
  int64_t add_items(std::vector<Item>& items) const;
  /// Sentences for the user on the table.
  const std::vector<std::string>& warnings() const { return table_.warnings; }
  /// Writes the features of these items, if there are any. Returns how many items have some value.
  int64_t write(const std::vector<Item>& items, FileSet& files) const;

 private:
  TableFeatures table_;
  ItemFeatures earlier_;
  std::string earlier_name_;
  std::filesystem::path file_;
  bool goes_on_ = false;  // from an earlier preparation
};

}  // namespace convoy::prepare
