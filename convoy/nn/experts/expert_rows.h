#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "convoy/comm/group.h"
#include "convoy/nn/experts/rows_by_expert.h"

// Shapes: S rows of this rank's tokens, R rows that its experts compute with.
namespace convoy::nn {

/// Ranks with other tokens, each of which has as many experts of a layer.
struct ExpertRanks {
  ExpertRanks() = default;
  ExpertRanks(comm::Group ranks, bool joins = false)  // NOLINT: a group says it
      : group(std::move(ranks)), joined(joins) {}

  comm::Group group;
  bool joined = false;  ///< an expert's rows of all ranks are one group
};

/// Rows of tokens on the ranks that have their experts: of a layer's E experts each rank has as
/// many, side by side. What a rank sent stays a group of its own, in the order in which it had it:
/// so products have the sizes, and bits, that they would have there. Joined, they are sorted by
/// expert, and of one expert by rank. On one rank nothing is done.
class ExpertRows {
 public:
  /// Tells the ranks how many rows will come. `name`: of a weight, the same on all ranks.
  ExpertRows(const RowsByExpert& order, const ExpertRanks& ranks, std::string name);

  /// Rows that are here, by the ranks that sent them.
  const RowGroups& groups() const { return groups_; }
  /// Number of each row's expert among those of this rank, [R] int64.
  at::Tensor experts() const;
  /// Sends `rows` [S, ...] to their experts: [R, ...].
  at::Tensor there(const at::Tensor& rows, const char* what) const;
  /// Sends `rows` [R, ...] back to their tokens' ranks: [S, ...].
  at::Tensor back(const at::Tensor& rows, const char* what) const;
  /// Whether there are other ranks.
  bool travels() const { return ranks_.size() > 1; }

 private:
  void join(const at::Tensor& counts);
  at::Tensor sent_over(const at::Tensor& rows, const comm::Counts& send,
                       const comm::Counts& receive, const char* what) const;

  comm::Group ranks_;
  std::string name_;
  at::Tensor experts_;         // of rows that stay
  at::Tensor ends_;            // [groups x experts here] int64: ends of each expert's rows
  at::Tensor order_, places_;  // [R] int64, joined: place as they came of each row, and of those
  RowGroups groups_;
  comm::Counts sent_, received_;  // rows, by rank
};

}  // namespace convoy::nn
