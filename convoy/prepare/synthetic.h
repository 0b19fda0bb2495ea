#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "convoy/base/progress.h"

namespace convoy::prepare {

struct SyntheticOptions {
  std::filesystem::path output;
  int64_t num_items = 2000;
  int64_t num_rows = 10000;
  int64_t num_valid_rows = -1;  ///< -1: a tenth of num_rows, 1 to 50,000
  int64_t min_length = 5;
  int64_t max_length = 20;
  double mean_length = 0;  ///< before long ones are cut: most are short; 0: all are as likely
  int64_t row_group_size = 500;
  uint64_t seed = 42;
  bool features = false;  ///< adds category-list (categorical) and price-list (continuous)
  /// Adds two columns with one value a session: `spent`, which is what its items cost, and
  /// `bought`, 1 where that is more than half of the most that they could cost, else 0.
  bool targets = false;
};

/// Returns options with sizes like those of a known data set; its sessions are not like those.
/// Names: rees46, a shop whose sessions are short, with a category and a price for each item.
/// Throws UsageError on any other.
SyntheticOptions synthetic_like(const std::string& name);

struct SyntheticReport {
  int64_t num_train_rows = 0;
  int64_t num_train_groups = 0;
  int64_t num_valid_rows = 0;
  int64_t num_train_events = 0;
};

/// Makes sessions that a model can learn, as a pure function of the options. Each item has four
/// fixed successors, drawn with a skew towards small ids; from item to item a session follows
/// - a successor of its last item (probabilities 0.40, 0.20, 0.12, 0.08),
/// - the first successor of the item before that (0.10), or
/// - the skewed popularity alone (0.10).
/// Writes what make_sessions writes (train, valid, schema, items), in memory that does not grow
/// with the number of rows. Ids are not sorted by count. Throws UsageError and FileError.
SyntheticReport make_synthetic(const SyntheticOptions& options, const ProgressFn& progress = {});

}  // namespace convoy::prepare
