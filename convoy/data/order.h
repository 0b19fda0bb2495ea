#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "convoy/data/stream.h"

namespace convoy::data {

/// Lanes of the order, whatever the number of ranks.
inline constexpr int64_t kLanes = 64;
/// Rows that all lanes' shuffle windows hold together.
inline constexpr int64_t kShuffleRows = 65536;

/// Throws UsageError when a number of the layout makes no sense.
void check_layout(const BatchLayout& layout);

/// A shuffle window that holds a whole lane.
inline constexpr int64_t kWholeLane = std::numeric_limits<int64_t>::max();

struct OrderOptions {
  uint64_t seed = 0;
  int64_t epoch = 0;
  bool shuffle = true;  ///< false: sample s is row s of the data set
  int64_t lanes = kLanes;
  int64_t window = 0;  ///< rows of a lane's shuffle window; 0: kShuffleRows / lanes

  /// Options of one permutation of all rows, for rows that can be read in any order.
  static OrderOptions of_all_rows(uint64_t seed, int64_t epoch, bool shuffle) {
    return {seed, epoch, shuffle, 1, kWholeLane};
  }
};

/// A stretch of rows [begin, end) inside one row group.
struct RowRange {
  int64_t group = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

/// Order of one epoch: maps sample s in [0, num_samples()) to a row of the data set, at random
/// access and as a pure function of (options, row-group sizes), whatever the number of ranks.
///
/// Shuffled: row groups are permuted and laid end to end; each of L lanes owns a contiguous stretch
/// of that sequence (lengths differ by at most one), which one is drawn for each epoch; sample s is
/// place s / L of lane s % L; inside a lane, rows are permuted within windows. Rank r of W reads
/// the lanes of its samples, each from front to back, holding no more than a window of each: a W-th
/// part of the lanes where W divides L, all of them where the two share no divisor. One lane that
/// is one window is a permutation of all rows: row groups do not matter then.
class EpochOrder {
 public:
  /// Order by rows. `group_rows`: rows of each row group, in the order of the data set.
  EpochOrder(std::vector<int64_t> group_rows, const OrderOptions& options);

  /// Order of Transformers4Rec: row groups are dealt to `world` ranks in contiguous blocks of
  /// equal count, lane r being rank r's rows; shuffling permutes groups inside a block and rows
  /// inside windows. Where blocks hold unequal numbers of rows, the shorter lanes end in holes.
  /// Throws UsageError unless `world` divides the number of row groups.
  static EpochOrder by_row_groups(const std::vector<int64_t>& group_rows,
                                  const OrderOptions& options, int64_t world);

  /// Samples of the epoch, holes included.
  int64_t num_samples() const { return num_samples_; }
  /// Samples before the first hole.
  int64_t num_dense_samples() const { return num_dense_samples_; }
  int64_t num_rows() const { return sequence_start_.back(); }
  int64_t num_lanes() const { return static_cast<int64_t>(lanes_.size()); }
  int64_t window() const { return window_; }

  /// Text of everything but seed, epoch and number of rows that decides the order: equal texts,
  /// equal orders.
  std::string text() const;

  /// Row of the data set (counted over all row groups) that is sample s; -1 for a hole.
  int64_t row_of(int64_t s) const;

  int64_t lane_of(int64_t s) const { return s % num_lanes(); }
  int64_t lane_rows(int64_t lane) const { return lanes_[lane].rows; }
  /// Position of lane place `place` (= s / L) in the lane's unshuffled stretch: the window that
  /// holds it is [place / window * window, + window).
  int64_t place_in_stretch(int64_t lane, int64_t place) const;
  /// Returns the stretch of a lane as rows of row groups, from front to back.
  std::vector<RowRange> segments_of_lane(int64_t lane) const;

 private:
  /// Stretch of the sequence that a lane owns.
  struct Lane {
    int64_t start = 0, rows = 0;
  };

  EpochOrder() = default;
  void lay(const std::vector<int64_t>& group_rows, std::vector<int64_t> groups);
  void finish(const OrderOptions& options);

  uint64_t key_ = 0;
  bool shuffle_ = true;
  int64_t window_ = 1;
  int64_t num_samples_ = 0;
  int64_t num_dense_samples_ = 0;
  std::vector<int64_t> sequence_;        // row groups, in the order of the epoch
  std::vector<int64_t> sequence_start_;  // place of each in the sequence; ends with the total
  std::vector<int64_t> group_start_;     // first row of each row group in the data set
  std::vector<Lane> lanes_;
};

/// Samples of micro-batch m of rank r in the step that takes samples [s0, end): micro-batch c = m x
/// W + r holds s0 + c + i x A x W for i = 0, 1, ... below end. A short last step is so spread as
/// evenly as it divides.
std::vector<int64_t> micro_batch_samples(const BatchLayout& layout, int64_t s0, int64_t end,
                                         int64_t micro_batch);

/// Steps of an epoch of `num_samples` samples; with `drop_last` only full ones.
int64_t steps_per_epoch(int64_t num_samples, const BatchLayout& layout, bool drop_last);

}  // namespace convoy::data
