#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "convoy/prepare/events.h"

namespace convoy::prepare {

/// Table with one row for each item, or for each user.
struct FeatureTable {
  std::filesystem::path file;  ///< CSV, TSV (also .gz) or Parquet; "" = none
  std::string key;             ///< its column of raw ids; "" = the usual names
  std::vector<FeatureSpec> features = {};
  bool has_other_uses = false;  ///< it may join nothing
};

/// Counts of a join.
struct JoinReport {
  std::string table;
  int64_t num_ids = 0;      ///< distinct ids of the events
  int64_t num_missing = 0;  ///< of these, those without a row, which have no value
};

/// Adds to `events` a feature for each of the table: the value of the event's item, or with
/// `of_users` one value a session, that of its user. Throws UsageError for options that do not fit
/// together, and FileError for a table that has an id twice or none of the events'.
JoinReport join_features(const FeatureTable& table, bool of_users, Events& events);

}  // namespace convoy::prepare
