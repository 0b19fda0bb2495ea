#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convoy/nn/block.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

// Low-rank adaptation (Hu et al., 2021): a frozen weight W [out, in] has small matrices A [r, in]
// and B [out, r], and each product with it becomes W x + scale B A dropout(x). The adapter hangs on
// the weight: linear() and linears() add it, blocks know nothing of it.
namespace convoy::nn {

struct LoraOptions {
  int64_t r = 8;
  double scale = 1;    ///< of what is added
  double dropout = 0;  ///< of the adapter's input
};

/// Adapter of one weight. A is uniform as PEFT's (Kaiming, a = sqrt(5)), B zero; both are drawn by
/// name: `<module>.lora_A.weight`, `<module>.lora_B.weight`. Tensor ranks split the matrix that has
/// the dimension along which the weight is split; the matrix without the split dimension is whole
/// on each rank, and each rank computes a part of its gradient.
class LowRank {
 public:
  /// Makes the adapter of the weight `<module>.weight`, which must be a matrix.
  LowRank(const ParamSpec& weight, const LoraOptions& options);

  const ParamPtr& down() const { return down_; }  ///< A [r, in]
  const ParamPtr& up() const { return up_; }      ///< B [out, r]
  const LoraOptions& options() const { return options_; }
  /// Number of its dropout, by the name.
  int64_t site() const { return site_; }
  /// Step of the products that follow, which dropout needs.
  void begin(const Context& context);
  const std::shared_ptr<const Context>& context() const { return context_; }

 private:
  LoraOptions options_;
  ParamPtr down_, up_;
  int64_t site_ = 0;
  std::shared_ptr<const Context> context_;  // null: nothing is dropped
};

/// Work of a weight's adapter in one product: nothing where the weight has none.
class LoraProduct {
 public:
  LoraProduct() = default;
  /// x [..., in here], as the product gets it.
  LoraProduct(const ParamPtr& weight, const at::Tensor& x, const TensorRanks& ranks);

  explicit operator bool() const { return adapter_ != nullptr; }
  /// Computes what backward needs besides `rows` [N, in here] and keeps it; without autograd.
  void read(const at::Tensor& rows);
  /// Adds to the product `out` [N, out here] of `rows` after read() of them.
  void add_to(at::Tensor out, const at::Tensor& rows);
  /// Gradient of the product with what other ranks add to it (with_overlaps()), and the columns
  /// that they hold, too (shared_columns()).
  struct WholeGrad {
    at::Tensor values;  ///< [N, out here]
    std::vector<Columns> shared;
  };
  /// Adds the gradients of A and B. `g` [N, out here] is the product's gradient on this rank,
  /// `rows` gives the input again. Returns the input's gradient [N, in here], or nothing unless it
  /// is wanted.
  at::Tensor backward(const at::Tensor& g, const WholeGrad& whole,
                      const std::function<at::Tensor()>& rows, bool wants_input) const;

 private:
  at::Tensor dropped(const at::Tensor& rows) const;

  std::shared_ptr<LowRank> adapter_;
  std::shared_ptr<const Context> context_;
  TensorRanks ranks_;
  bool is_cut_ = false;
  std::vector<int64_t> sizes_;
  at::Tensor inner_;  // [N, r] scaled
};

/// A block whose weights have adapters.
BlockPtr with_adapters(BlockPtr block, std::vector<std::shared_ptr<LowRank>> adapters);

}  // namespace convoy::nn
