#pragma once

#include <cstdint>
#include <vector>

#include "convoy/nn/experts/rows_by_expert.h"
#include "convoy/nn/param.h"

// Shapes: S rows, E experts, p matrices [C / p, R] of each expert, which count as one [C, R]. Or
// one parameter [E, R, C] for all.
namespace convoy::nn {

/// Products of groups of rows, each sorted by expert, with their experts' matrices, one expert
/// after the other; for that a GPU's host waits for the numbers of rows. In bf16 a GPU of compute
/// capability 9 or 10 computes all in one call without such a wait, where matrices lie side by
/// side, and their rows begin at multiples of 16 bytes.
class GroupedProduct {
 public:
  /// `weights`: those of the first expert, then those of the second, ...; or one for all.
  GroupedProduct(std::vector<ParamPtr> weights, int64_t num_experts);

  /// Products [S, C] of `rows` [S, R]. Without autograd. `few`: with a kernel for few rows, as
  /// generation has them.
  at::Tensor times(const at::Tensor& rows, const RowGroups& groups, bool few = false) const;
  /// Gradients [S, R] of the rows, for those of the products, `grads` [S, C].
  at::Tensor back(const at::Tensor& grads, const RowGroups& groups) const;
  /// Adds the gradients of the matrices, one group's after the other's. An expert without rows gets
  /// zeros, of several groups nothing.
  void add_weight_grads(const at::Tensor& grads, const at::Tensor& rows,
                        const RowGroups& groups) const;

  const std::vector<ParamPtr>& weights() const { return weights_; }
  /// Whether any of the matrices trains.
  bool trains() const;

 private:
  /// All matrices [E, C, R], where one call can read them; else undefined.
  at::Tensor stack(const at::Tensor& rows) const;
  /// Whether one parameter holds the matrices of all experts.
  bool is_one() const { return weights_.front()->spec().shape.size() == 3; }
  /// Matrix [C, R] of an expert.
  at::Tensor matrix(int64_t expert) const;
  std::vector<ParamPtr> params_of(int64_t expert) const;
  void add_grads_of(int64_t expert, const at::Tensor& grads, const at::Tensor& rows) const;
  int64_t num_columns() const;
  void add_grads(const at::Tensor& grads, const at::Tensor& rows, const RowGroup& group,
                 bool alone) const;
  void add_grads_at_once(const at::Tensor& grads, const at::Tensor& rows,
                         const RowGroup& group) const;

  std::vector<ParamPtr> weights_;
  int64_t num_experts_;
};

}  // namespace convoy::nn
