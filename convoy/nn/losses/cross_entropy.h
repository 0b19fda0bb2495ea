#pragma once

#include "convoy/nn/tensor_parallel/tensor_ranks.h"

// Shapes: N positions with a target, D model width, V vocabulary with padding.
namespace convoy::nn {

struct CrossEntropyOptions {
  double temperature = 1;  ///< divides the scores
  int64_t first_id = 1;    ///< ids below it are not in the softmax: 1 leaves out padding
  double cap = 0;          ///< bounds the scores by cap x tanh(score / cap); 0 = not
  ParamPtr bias;           ///< [V], added to the products; may be null
  bool count_correct = false;
  bool keep_losses = false;
  /// Weights [N] fp32: factor of each row's loss, and so of its gradients; undefined: all count 1.
  /// They do not go with a bias.
  at::Tensor weights = {};
  /// Tensor ranks, which may share out the table's rows. Each may also have only the rows [n, D] of
  /// h of its own tokens.
  TensorRanks ranks = {};
};

struct CrossEntropy {
  at::Tensor loss;     ///< sum over the N rows, fp32 scalar
  at::Tensor correct;  ///< rows whose best score is the target's, int64 scalar; if asked for
  at::Tensor losses;   ///< [N] fp32, of each row before it is weighted; if asked for
};

/// Returns the cross-entropy of h [N, D] against rows first_id..V-1 of `table` [V, D], which may be
/// the embedding's or the head's own. `targets` [N] int64 are in first_id..V-1. Products are in the
/// table's dtype, but for fp16 tables in fp32: slopes of a softmax over many items are below what
/// fp16 can hold.
///
/// The scores exist for a few rows at a time only, about a cache's worth (on a GPU: half a GiB).
/// Where autograd is on, a piece's loss and gradients are computed while its scores are there, and
/// backward only hands them over. The table's gradient goes straight into its main_grad, which must
/// be bound by then, unless something was added there before. Memory is one gradient of `h`, never
/// N x V nor another V x D.
CrossEntropy cross_entropy(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
                           const CrossEntropyOptions& options = {});

/// Makes losses of this thread, while it lives, take as much of the host's memory for scores as a
/// GPU's would of its own, for `times` as many rows. So an estimate on the host knows the GPU's
/// need.
class ScoresOfGpu {
 public:
  explicit ScoresOfGpu(double times);
  ~ScoresOfGpu();
  ScoresOfGpu(const ScoresOfGpu&) = delete;
  ScoresOfGpu& operator=(const ScoresOfGpu&) = delete;

 private:
  double before_;
};

/// Returns the number of rows of scores over `num_items` items that are worth having in memory of
/// `device` at once.
int64_t score_rows_at_once(int64_t num_items, at::Device device);
/// Returns score_rows_at_once(), but on a GPU cuts `num_rows` rows into pieces of about one size.
/// Their sizes are multiples of 128, which fill the tiles of its products.
int64_t even_score_rows(int64_t num_rows, int64_t num_items, at::Device device);

/// Cross-entropy of rows of scores, and one of the two factors of their softmax.
struct SoftmaxLoss {
  at::Tensor losses;  ///< [N] fp32
  at::Tensor scales;  ///< [N] fp32
};

/// Turns contiguous rows of scores [N, C] fp32 in place into exponentials. Times their row's scale,
/// they are the softmax of scores / temperature. Losses are against `columns` [N] int64.
SoftmaxLoss softmax_loss(at::Tensor scores, const at::Tensor& columns, double temperature);

}  // namespace convoy::nn
