#pragma once

#include <cstdint>
#include <filesystem>

#include "convoy/base/progress.h"

namespace convoy::data {

/// Options of a repartition, of which exactly one of row_group_size, partitions and ranks is above
/// 0.
struct RepartitionOptions {
  std::filesystem::path input;
  std::filesystem::path output;  ///< empty: the input is replaced
  int64_t row_group_size = 0;    ///< rows of each row group; the last may be shorter
  int64_t partitions = 0;        ///< number of row groups, equal to within one row
  /// Number of row groups becomes the multiple of this nearest to what it was; they are equal to
  /// within one row, and so is what falls to each of that many ranks.
  int64_t ranks = 0;
};

struct RepartitionReport {
  int64_t num_rows = 0;
  int64_t old_groups = 0;
  int64_t new_groups = 0;
  int64_t min_group_rows = 0;
  int64_t max_group_rows = 0;
  int64_t old_bytes = 0;
  int64_t new_bytes = 0;
  std::vector<std::string> changes;  ///< sentences: columns that are stored in another type
};

/// Rewrites a Parquet file with other row groups. Rows keep their order, columns their types (but
/// for those that the report names) and the file its metadata and compression. Memory holds one new
/// row group, encoded, and one old one's pages. The output appears whole or not at all. Throws
/// UsageError and FileError.
RepartitionReport repartition(const RepartitionOptions& options, const ProgressFn& progress = {});

}  // namespace convoy::data
