#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace convoy::prepare {

/// Entry of a vocabulary: an item, a user, or a value of a categorical feature.
struct Item {
  int64_t id = 0;      ///< 1, 2, ...; 0 is padding
  std::string raw_id;  ///< id in the interactions
  int64_t count = 0;   ///< number of events in the training part
  std::string name;    ///< a title for people; "" = none
};

/// Writes `items.parquet`: columns id, raw_id, count and, when any item has one, name. Messages
/// speak of `shown`, the name that the file is to have in the end.
void write_items(const std::filesystem::path& file, const std::filesystem::path& shown,
                 const std::vector<Item>& items);

/// Returns the ids of a column of a CSV, TSV or Parquet file, one for each row; "" where there is
/// none. Throws FileError for other values than texts and whole numbers.
std::vector<std::string> read_raw_ids(const std::filesystem::path& file, const std::string& column);

/// Names of the ids of a data set.
class ItemNames {
 public:
  ItemNames() = default;
  /// Reads `items.parquet`; a file that does not exist gives names without entries.
  /// Throws FileError for a file that is there but broken: missing columns, ids out of order.
  static ItemNames load(const std::filesystem::path& file);

  /// Number of entries; ids are 1 .. size().
  int64_t size() const { return static_cast<int64_t>(items_.size()); }
  bool has_names() const { return has_names_; }

  /// Returns the id in the interactions, or the number itself when the file has no such entry.
  std::string raw_id(int64_t id) const;
  /// Returns the number of events in the training part; 0 when unknown.
  int64_t count(int64_t id) const;
  /// Returns the title; "" when there is none.
  std::string name(int64_t id) const;
  /// Returns the title or, without one, the raw id.
  std::string label(int64_t id) const;

 private:
  const Item* get(int64_t id) const;

  std::vector<Item> items_;  // entry id - 1
  bool has_names_ = false;
};

}  // namespace convoy::prepare
