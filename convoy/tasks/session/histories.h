#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

#include "convoy/models/session/session.h"
#include "convoy/prepare/items.h"
#include "convoy/prepare/seen.h"

namespace convoy::tasks {

/// Whole histories of users, as convoy data sessions keeps them (users.parquet, seen.parquet).
class Histories {
 public:
  /// Reads the histories beside `data`; "" = beside the data of the run in `folder`. Throws
  /// FileError where there are none, or where an id of theirs is another item than in that run.
  Histories(const std::filesystem::path& folder, const models::SessionConfig& config,
            const std::filesystem::path& data);

  /// Returns a user's items as ids of the data, oldest first; null for an unknown user. Users are
  /// given by the ids of the interactions.
  const std::span<const int32_t>* of(const std::string& user) const;
  /// Item of an id of the data, as in the interactions.
  std::string raw_id(int64_t id) const;

 private:
  prepare::SeenLists lists_;
  std::unordered_map<std::string, std::span<const int32_t>> users_;
  std::filesystem::path items_file_;
  mutable std::once_flag read_items_;
  mutable prepare::ItemNames items_;  ///< read where an id is asked for
};

/// File `name` beside the data that the run in `folder` was trained on; "" = none, or it moved.
std::filesystem::path beside_data_of(const std::filesystem::path& folder, const std::string& name);

}  // namespace convoy::tasks
