#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "convoy/comm/group.h"
#include "convoy/nn/block.h"
#include "convoy/parallel/buffers/flat_buffers.h"
#include "convoy/parallel/row_tables/torch/missed_updates.h"

// Shapes: N ranks; V rows of a table, K of them here, D their width; n rows that a step reads, at
// most P of one rank; M states that an evaluation asks for.
namespace convoy::parallel {

/// A table that is kept by rows: row r with rank r mod N, outside of the flat buffers. A step
/// collects the rows that it reads; the parameter is bound to these alone, [N x P, D], those of
/// rank 0 first. Their gradient is summed over the ranks, each rank gets that of its own rows and
/// updates them. Nothing of the table's size is touched. What rows missed meanwhile is made up for
/// before they are read (MissedUpdates), so the table is that of a run that keeps it whole.
class RowTable {
 public:
  RowTable(FlatBuffers& flat, int64_t unit, comm::Group ranks);

  const nn::ParamPtr& param() const { return param_; }
  int64_t unit() const { return unit_; }

  /// Draws the own rows.
  void draw(uint64_t seed);
  /// Notes that the rows were given values: they have missed nothing.
  void restart() { missed_.forget(); }
  /// Brings all own rows up to date, as between two steps of a run that keeps the table whole.
  void make_up() { missed_.make_up_all(state_); }
  /// Own rows, [K, D]; row k is row rank + k x N of the table.
  const RowState& state() const { return state_; }

  /// Binds the parameter to the rows with these ids, those of all ranks together: on the host, in
  /// any order, some more than once. `trains`: to a gradient, too.
  void fetch(const at::Tensor& ids, bool trains);
  /// A micro-batch's gradient is finished; `last` of the step: no other one follows.
  void accumulate(int64_t micro_batch, bool last);
  void reduce();
  /// Returns the sum of squares of the own rows' gradient, once it is reduced: fp64, on the device.
  at::Tensor squares() const;
  /// Whether this rank's gradient, before it is reduced, has finite numbers only.
  bool finite() const;
  void update(const optim::StepNumbers& numbers, double weight_decay);

  /// Ranks the targets of an evaluation among all rows, each owner scoring its own, and adds the
  /// cross-entropy to the loss: replaces what Block::rows_read tells of in `out` by `target_rank`
  /// [M] int64. A rank without rows gives an empty bundle.
  void score(nn::Bundle& out);

  /// Bytes of weights; of the optimizer's state and of the updates noted; of the rows that a step
  /// fetched.
  int64_t weight_bytes() const;
  int64_t optimizer_bytes() const;
  int64_t fetched_bytes() const;

 private:
  std::vector<int64_t> of_all_ranks(const at::Tensor& ids) const;
  at::Tensor index() const;  ///< of the own rows that were fetched
  /// Returns the rows as blocks see them, in fp32.
  at::Tensor rounded(const at::Tensor& rows) const;
  at::Tensor on_device(const std::vector<int64_t>& values) const;
  struct Asked;  ///< of all ranks
  struct Scores;
  Asked ask(const nn::Bundle& out) const;
  at::Tensor target_scores(const Asked& asked) const;
  Scores score_own(const Asked& asked, const at::Tensor& own) const;

  const optim::Optimizer& optimizer_;
  nn::ParamPtr param_;
  int64_t unit_;
  comm::Group ranks_;
  at::ScalarType dtype_;  ///< of the weights that blocks see
  int64_t width_;
  RowState state_;
  MissedUpdates missed_;
  // State of a step:
  int64_t most_ = 0;           ///< P
  std::vector<int64_t> rows_;  ///< own ones, as indices into the state
  at::Tensor values_;          ///< [N x P, D], what blocks see
  at::Tensor grad_, scratch_;  ///< gradients of `values_`: the sum so far, and one more
  at::Tensor own_grad_;        ///< [own rows, D]
};

}  // namespace convoy::parallel
