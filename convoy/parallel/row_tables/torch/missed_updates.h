#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "convoy/optim/optimizer.h"
#include "convoy/parallel/buffers/held_rows.h"

// Shapes: K rows of a table that are here, D their width.
namespace convoy::parallel {

/// Rows of a table, [K, D] each: weights in fp32, and the optimizer's state of them.
struct RowState {
  at::Tensor weights;
  std::vector<at::Tensor> states;
  /// Holders of the old values while rows change: of the weights, then of the states. On the host
  /// only.
  std::vector<std::shared_ptr<ChangingRows>> changing = {};

  /// Copies of the rows at `index` [n] int64.
  RowState select(const at::Tensor& index) const;
  /// Writes such copies back to the rows at `index`.
  void store(const at::Tensor& index, const RowState& rows) const;
  /// Rows begin .. end - 1, flat, as an optimizer updates them; without gradients.
  optim::FlatRange stretch(int64_t begin, int64_t end) const;
};

/// Makes up for the updates that rows without a gradient missed, so that a table whose rows are
/// updated only when a step reads them is that of a run which updates all in every step.
///
/// Momentum moves a weight without a gradient. As many updates as the optimizer needs to become
/// idle are done one by one, with the learning rates of their steps and its own arithmetic. In
/// later ones only decay is left, the product of its factors as the optimizer rounds them. A row
/// whose first state is zero has had no gradient, and is idle from the start.
class MissedUpdates {
 public:
  MissedUpdates(const optim::Optimizer& optimizer, int64_t num_rows);

  /// Notes an update of the rows with a gradient, which the others missed.
  void note(const optim::StepNumbers& numbers, double weight_decay);
  /// Notes that these rows took part in all noted updates.
  void took_part(const std::vector<int64_t>& rows);
  /// Makes up for the updates that some rows missed, each once.
  void make_up(const std::vector<int64_t>& rows, const RowState& table);
  void make_up_all(const RowState& table);
  /// Notes that all rows are up to date.
  void forget();

  int64_t num_bytes() const;

 private:
  struct Passed {
    optim::StepNumbers numbers;
    double weight_decay;
    double kept;  ///< factor of a weight, as the optimizer rounds it
  };

  int64_t now() const { return static_cast<int64_t>(passed_.size()); }
  void make_up_late(std::vector<int64_t> late, const RowState& table);
  /// Makes up for rows of which all move, or none, in the order of the first update that they
  /// missed.
  void make_up_alike(const std::vector<int64_t>& rows, int64_t one_by_one, const RowState& table);
  void replay(const std::vector<int64_t>& from, const std::vector<int64_t>& to,
              const RowState& rows) const;
  double kept_between(int64_t from, int64_t to) const;

  const optim::Optimizer& optimizer_;
  std::vector<Passed> passed_;
  std::vector<double> log_kept_{0};  // [n] of the first n updates' factors, but for those below
  std::vector<int64_t> num_odd_{0};  // [n] factors that have no logarithm
  std::vector<int32_t> done_;        // [K] of passed_
};

}  // namespace convoy::parallel
