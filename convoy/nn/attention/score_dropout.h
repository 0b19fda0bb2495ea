#pragma once

#include "convoy/nn/block.h"

namespace convoy::nn {

/// Place of a piece of attention's scores among all: R rows, all H heads, n queries and S keys.
struct ScorePlace {
  std::vector<int64_t> sizes;   ///< [R, H, n, S]
  std::vector<int64_t> bounds;  ///< of all: heads, queries, keys
  std::vector<int64_t> origin;  ///< in these
};

/// Dropout of attention's weights, whose mask is dropout_mask(). On a GPU, where lines of keys are
/// whole chunks of the mask's, a byte each tells what is dropped: an eighth of the draws, a quarter
/// of the memory, and what is kept is multiplied elsewhere, by `factor`.
class ScoreDropout {
 public:
  ScoreDropout() = default;
  /// `context` must have samples [R].
  ScoreDropout(const ScorePlace& place, double rate, const Context& context, int64_t site,
               at::Device device);

  /// Returns the weights [R, H, n, S] after dropping; multiplied where there is no factor.
  at::Tensor kept(const at::Tensor& weights) const;
  /// Drops like kept(), in place.
  void drop(at::Tensor& weights) const;
  double factor() const { return factor_; }

 private:
  at::Tensor mask_;   // [R, H, n, S] fp32
  at::Tensor drops_;  // [R, H, n, S / 128, 8, 16] bool
  double factor_ = 1;
};

}  // namespace convoy::nn
