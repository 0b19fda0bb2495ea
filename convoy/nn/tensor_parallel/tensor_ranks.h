#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "convoy/nn/block.h"
#include "convoy/nn/context_parallel/context_ranks.h"

// Layers with weights that tensor ranks split (Shoeybi et al., 2019). A rank that has some of a
// weight's columns (of the product's output) reads the whole input and computes some of the output.
// A rank that has some of its rows reads some of the input and computes a part of a sum. So the
// states are whole before and after a pair of products, and split between the two. With sequence
// parallelism (Korthikanti et al., 2022) the ranks also split the tokens, and each has the states
// of some: they are gathered for the first product, and each rank gets the sum for its own tokens
// after the second. On one rank nothing is done.
namespace convoy::nn {

/// Ranks that share out weights, and how they hold the states of a batch: all of them on each
/// rank, [B, T, ...]; or each rank a stretch of the B x T tokens, [n, ...], as equal as can be.
/// Where context ranks share out the positions of rows (ContextRanks), T counts this rank's. Layers
/// that compute with shares of the tokens give partial gradients of parameters that are whole on
/// each rank: these are summed over the ranks once a step.
class TensorRanks {
 public:
  TensorRanks() = default;
  /// States are whole.
  TensorRanks(comm::Group group) : group_(std::move(group)) {}  // NOLINT: a group says it
  /// Tokens of `rows` rows at the positions that context ranks leave here: whole, or shared out
  /// among the tensor ranks.
  TensorRanks(comm::Group group, int64_t rows, ContextRanks positions, bool shares);
  /// Tokens at all positions of `rows` x `length`, shared out.
  TensorRanks(comm::Group group, int64_t rows, int64_t length)
      : TensorRanks(std::move(group), rows, ContextRanks({}, length), /*shares=*/true) {}

  const comm::Group& group() const { return group_; }
  /// Whether tokens are shared out.
  bool shares() const { return !counts_.empty(); }
  int64_t rows() const { return rows_; }
  /// Positions of a row that are here.
  int64_t length() const { return length_; }
  const ContextRanks& positions() const { return positions_; }
  /// Whether this rank has all positions of all rows.
  bool has_all() const { return !shares() && !positions_.shares(); }
  /// First token of this rank, of all flattened, and the number that it has.
  int64_t begin() const { return begin_; }
  int64_t size() const;

  /// Returns the ranks for some tokens alone, [A] int64 on any device, ascending: each rank has
  /// those of its stretch. They count as rows of one token.
  TensorRanks among(const at::Tensor& tokens) const;
  /// First token of each row, [B], and the ranks for those tokens alone.
  at::Tensor first_tokens(at::Device device) const;
  TensorRanks among_first() const { return among(first_tokens(at::kCPU)); }

  /// Part of `all` [B, T, ...], or of the tokens [N, ...] whose positions are here, that this rank
  /// has: [n, ...]; [B, t, ...] where the tensor ranks do not split tokens.
  at::Tensor own(const at::Tensor& all) const;
  /// States of `tokens`, which `some` is among(), out of states [B, T, D] or shares of them:
  /// [A, D], or shares.
  at::Tensor select(const at::Tensor& states, const at::Tensor& tokens,
                    const TensorRanks& some) const;
  /// Returns the ranks' states [n, ...], concatenated: [N, ...]. Without autograd.
  at::Tensor gather(const at::Tensor& mine, const std::string& label) const;
  /// Sum over the ranks of `all` [N, ...], this rank's tokens of it: [n, ...]. Without autograd.
  at::Tensor scatter_sum(const at::Tensor& all, const std::string& label) const;
  /// Gathers all states [N, ...] from the ranks' shares [n, ...], for ranks that all compute the
  /// same with them: in backward a rank takes its own tokens' gradient.
  at::Tensor whole(const at::Tensor& mine, const std::string& label) const;

 private:
  comm::Group group_;
  comm::Counts counts_;  // tokens of each rank; empty: all have all
  ContextRanks positions_;
  int64_t rows_ = 0, length_ = 0, begin_ = 0;
};

/// Whether these ranks share out a parameter, along any dimension or along `dim`.
inline bool is_cut(const ParamPtr& param, const comm::Group& tensor) {
  return tensor.size() > 1 && param->spec().cut.dim >= 0;
}
inline bool is_cut(const ParamPtr& param, int64_t dim, const comm::Group& tensor) {
  return is_cut(param, tensor) && param->spec().cut.dim == dim;
}

/// Label of a collective of a weight: "rows of transformer.h.3.mlp.c_proj".
std::string label_of(const char* what, const ParamPtr& weight);

/// An input that was gathered from the ranks' shares: backward keeps the share and gathers it
/// again, once for all products that read it.
class GatheredInput {
 public:
  GatheredInput(at::Tensor share, TensorRanks ranks, std::string label)
      : share_(std::move(share)), ranks_(std::move(ranks)), label_(std::move(label)) {}

  void add_reader() { ++readers_; }
  /// Returns the whole input, [N, in]. The last reader to take it leaves nothing.
  at::Tensor take();

 private:
  at::Tensor share_, all_;
  TensorRanks ranks_;
  std::string label_;
  int readers_ = 0;
};

/// Gradients of weights that backward computes while the gradient of their input is summed over the
/// ranks.
class LateWrites {
 public:
  void add(std::function<void()> write) { writes_.push_back(std::move(write)); }
  /// Runs all writes, in the order in which they were added.
  void run();

 private:
  std::vector<std::function<void()>> writes_;
};

/// Input of a product.
struct Operand {
  Operand(at::Tensor x) : value(x), edge(std::move(x)) {}  // NOLINT: a tensor is one

  at::Tensor value;                         ///< [..., in]
  at::Tensor edge;                          ///< has its shape, and takes its gradient
  std::shared_ptr<GatheredInput> gathered;  ///< null: `value` is kept for backward
  std::shared_ptr<LateWrites> late;         ///< null: gradients of weights are computed at once
  bool unread = false;                      ///< nobody reads the product: zeros take its place
};

/// Input of a product that is only added to the result of the block: where `context` recomputes,
/// nobody reads it.
Operand for_result(at::Tensor x, const Context& context);

/// `x` as an input of products with a weight whose columns are shared out, and of all others that
/// read the same: in backward one sum over the ranks adds up its gradients. On a GPU the gradients
/// of the weights are computed meanwhile. Shares of tokens are gathered, in the weight's dtype, to
/// [B, T, in].
Operand to_columns(const at::Tensor& x, const ParamPtr& weight, const TensorRanks& ranks);

/// Gradient g [N, columns here] of a product, plus that of other ranks where several have the same
/// columns.
at::Tensor with_overlaps(const at::Tensor& g, const ParamPtr& weight, const comm::Group& tensor);

/// Some of a product's columns, by their numbers on this rank.
struct Columns {
  int64_t begin = 0, size = 0;
};

/// Columns whose gradients are computed by themselves, so that ranks that hold the same ones get
/// the same bits: a GEMM may add up a column in another order where it has other columns beside it.
/// Empty where no other rank holds any of them.
std::vector<Columns> shared_columns(const ParamPtr& weight, const comm::Group& tensor);

/// Columns of all ranks, of x [N, columns here] by the stretches of `weight` along `dim`, less
/// those before `first`; without autograd.
at::Tensor gather_columns(const at::Tensor& x, const ParamPtr& weight, int64_t dim,
                          const comm::Group& tensor, int64_t first = 0);

}  // namespace convoy::nn
