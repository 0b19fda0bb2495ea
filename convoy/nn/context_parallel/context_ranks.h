#pragma once

#include <array>

#include "convoy/comm/group.h"

namespace convoy::nn {

/// Neighbouring positions of a row.
struct PositionRange {
  int64_t begin = 0, length = 0;
};

/// Splits the positions of rows among C context ranks, as equally as possible. Each row is cut into
/// 2C ranges, and rank c has the c-th and the c-th last, as in Megatron-LM. So all ranks have equal
/// work where a position attends to those before it.
class ContextRanks {
 public:
  /// Makes no split: this process has all positions.
  ContextRanks() = default;
  /// Splits rows of `length` positions among the ranks of `group`.
  ContextRanks(comm::Group group, int64_t length) : group_(std::move(group)), length_(length) {}

  const comm::Group& group() const { return group_; }
  bool shares() const { return group_.size() > 1; }
  /// Number of positions of a row, of all ranks together.
  int64_t length() const { return length_; }
  /// Returns the two ranges of positions that a rank has, in ascending order. Without other ranks
  /// the first range has all positions, and the second is empty.
  std::array<PositionRange, 2> stretches(int rank) const;
  std::array<PositionRange, 2> stretches() const { return stretches(group_.rank()); }
  /// Number of positions of a rank.
  int64_t size(int rank) const;
  int64_t size() const { return size(group_.rank()); }
  /// Positions of this rank, [t] int64.
  at::Tensor positions(at::Device device) const;
  /// Returns this rank's positions of `all`, selected along `dim`.
  at::Tensor own(const at::Tensor& all, int64_t dim = 1) const;

 private:
  comm::Group group_;
  int64_t length_ = 0;
};

}  // namespace convoy::nn
