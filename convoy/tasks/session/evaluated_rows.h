#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "convoy/comm/group.h"
#include "convoy/nn/block.h"
#include "convoy/parallel/buffers/types.h"

namespace convoy::tasks {

/// Results of an evaluation by row, in the order of the data, for rows whose target the model
/// ranked.
struct EvaluatedRows {
  int64_t list_size = 0;            ///< items kept of each row's list
  std::vector<int64_t> rows = {};   ///< of the data
  std::vector<int64_t> ranks = {};  ///< of the targets: 1 = best
  std::vector<int64_t> items = {};  ///< [rows, list_size], best first; 0 behind them

  int64_t size() const { return std::ssize(rows); }
  /// Returns the first `k` items of the list of row `i`, or fewer.
  std::span<const int64_t> list(int64_t i, int64_t k) const;
};

/// Collects the rows of an evaluation from the model's outputs (models::kTargetRow,
/// models::kTopItems).
class RowCollector {
 public:
  explicit RowCollector(int64_t list_size) : list_size_(list_size) {}

  void add(const parallel::MicroBatch& batch, int64_t first_sample, const nn::Bundle& out);
  /// Returns the results of all ranks of `group` on its first rank. Collective.
  EvaluatedRows gather(const comm::Group& group) const;

 private:
  int64_t list_size_;
  std::vector<at::Tensor> parts_;  ///< [n, 2 + list_size] row, rank, items
};

}  // namespace convoy::tasks
