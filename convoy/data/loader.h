#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/data/micro_batch.h"
#include "convoy/data/order.h"
#include "convoy/data/parquet_files.h"
#include "convoy/data/stream.h"

namespace convoy::data {

/// Partition of an epoch among ranks.
enum class Partition {
  Rows,       ///< by rows: equal shares, the same global batches for every number of ranks
  RowGroups,  ///< Transformers4Rec's rule: whole row groups, in contiguous blocks
};

/// Bytes of decoded rows that are shuffled as a whole unless shuffle_window says otherwise. It
/// counts the files and the columns read, not the memory there is: the order is a property of a
/// run.
inline constexpr int64_t kShuffledWhole = int64_t{256} << 20;

struct LoaderOptions : StreamOptions, ListLimits {
  Selection selection;  ///< columns to read, with the limits of their ids; see select()
  Partition partition = Partition::Rows;
  /// Rows of one lane's window. 0: all rows of a data set that takes at most kShuffledWhole bytes
  /// once decoded, else 65,536 rows over all lanes. As many as the data set has or more: all rows.
  int64_t shuffle_window = 0;
  int64_t memory_budget = int64_t{256} << 20;  ///< bytes; larger data sets are streamed
  int64_t prefetch_depth = 4;                  ///< steps made ahead
};

struct LoaderStats {
  int64_t rows = 0;            ///< delivered by next()
  int64_t short_rows = 0;      ///< of these, rows without a target (fewer than two positions)
  int64_t truncated_rows = 0;  ///< of these, rows cut to max_length
  int64_t decoded_rows = 0;    ///< decoded from Parquet, ahead of delivery
  int64_t held_bytes = 0;      ///< decoded rows in memory now
  int64_t peak_bytes = 0;      ///< the most so far
  double wait_seconds = 0;     ///< time that next() waited
};

/// Positions of each row, in the files' order, as micro-batches of these options have them; empty:
/// there is no column of lists. Reads one column of all files.
std::vector<int64_t> row_lengths(const ParquetFiles& dataset, const LoaderOptions& options);

/// Returns the micro-batch of some rows by their place in the files; decodes their row groups.
LoadedRows micro_batch_of(const ParquetFiles& dataset, const LoaderOptions& options,
                          const std::vector<int64_t>& rows);

/// Delivers an epoch of a data set of sessions step by step, made ahead by a background thread. One
/// user thread; two loaders share nothing that changes.
class SessionLoader {
 public:
  /// Throws FileError for files and columns, UsageError for options that make no sense.
  SessionLoader(ParquetFiles dataset, LoaderOptions options);
  ~SessionLoader();
  SessionLoader(SessionLoader&&) noexcept;
  SessionLoader& operator=(SessionLoader&&) noexcept;

  int64_t num_rows() const;
  int64_t steps_per_epoch() const;
  /// Rows and batches of each rank in an epoch.
  std::vector<RankShare> partition_summary() const;
  /// Sentences for the user, made once at construction.
  const std::vector<std::string>& warnings() const;

  /// Text of everything but seed and number of rows that decides the order of an epoch's samples.
  std::string order() const;

  /// Begins an epoch at position s0 (LoadedStep::end of the last step done, or 0), also while
  /// another is under way.
  void start(int64_t epoch, int64_t s0 = 0);
  /// Returns the next step of this rank, or nothing at the end of the epoch. Throws what reading
  /// threw.
  std::optional<LoadedStep<LoadedRows>> next();
  /// Stops reading ahead.
  void stop();

  LoaderStats stats() const;
  /// Seconds that next() has waited for data since construction.
  double wait_seconds() const { return stats().wait_seconds; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::data
