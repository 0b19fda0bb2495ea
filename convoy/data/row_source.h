#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "convoy/data/order.h"
#include "convoy/data/parquet_files.h"

namespace convoy::data {

/// A row inside decoded rows; null for a hole of the order.
struct RowRef {
  const Rows* rows = nullptr;
  int64_t row = 0;
};

/// Hands out decoded rows by sample. A data set that fits the budget once decoded is decoded once
/// and kept; a larger one is streamed: each lane of the order has its own reader, which goes from
/// front to back and holds one window.
class RowSource {
 public:
  RowSource(ParquetFiles dataset, Selection selection, int64_t memory_budget);

  /// Begins an epoch. The order must outlive it.
  void start(const EpochOrder& order);

  /// Row of sample s, valid until the next call. Samples of one lane are meant to be asked for in
  /// ascending order; any other order works, slowly.
  RowRef row(int64_t s);

  bool keeps_all() const { return keeps_all_; }
  /// Bytes of decoded rows held now, and the most ever held.
  int64_t held_bytes() const { return held_bytes_; }
  int64_t peak_bytes() const { return peak_bytes_; }
  /// Rows decoded so far, also those that were passed over.
  int64_t decoded_rows() const { return decoded_rows_; }

 private:
  struct Lane {
    std::unique_ptr<RowStream> stream;
    Rows window;
    int64_t number = -1;  // of the window held
  };

  RowRef kept_row(int64_t s);
  RowRef streamed_row(int64_t s);
  void open(Lane& lane, int64_t index, int64_t place) const;
  void account(int64_t bytes, int64_t rows);

  const ParquetFiles dataset_;
  const Selection selection_;
  const EpochOrder* order_ = nullptr;
  bool keeps_all_ = false;
  std::vector<int64_t> group_start_;
  std::vector<std::optional<Rows>> groups_;  // when all is kept
  std::map<int64_t, Lane> lanes_;            // when streaming
  std::atomic<int64_t> held_bytes_ = 0;
  std::atomic<int64_t> peak_bytes_ = 0;
  std::atomic<int64_t> decoded_rows_ = 0;
};

}  // namespace convoy::data
