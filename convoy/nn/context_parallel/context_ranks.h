#pragma once

#include <array>

#include "convoy/comm/group.h"

namespace convoy::nn {

/// Neighbouring positions of a row.
struct PositionRange {
  int64_t begin = 0, length = 0;
};

/// Shares out the positions of rows among context ranks, as equally as can be: rows are cut into 2C
/// stretches, and rank c has the c-th and the c-th last, as in Megatron-LM. So all ranks have equal
/// work where a position sees those before it.
class ContextRanks {
 public:
  /// No ranks: nothing is shared out.
  ContextRanks() = default;
  /// Shares out rows of `length` positions.
  ContextRanks(comm::Group group, int64_t length) : group_(std::move(group)), length_(length) {}

  const comm::Group& group() const { return group_; }
  bool shares() const { return group_.size() > 1; }
  /// Positions of a row, those of all ranks together.
  int64_t length() const { return length_; }
  /// Positions of a rank, in order; a rank alone has all in the first stretch.
  std::array<PositionRange, 2> stretches(int rank) const;
  std::array<PositionRange, 2> stretches() const { return stretches(group_.rank()); }
  /// Number of positions of a rank.
  int64_t size(int rank) const;
  int64_t size() const { return size(group_.rank()); }
  /// This rank's positions, [t] int64.
  at::Tensor positions(at::Device device) const;
  /// The part of this rank of all positions along `dim`.
  at::Tensor own(const at::Tensor& all, int64_t dim = 1) const;

 private:
  comm::Group group_;
  int64_t length_ = 0;
};

}  // namespace convoy::nn
