#pragma once

#include <string>
#include <vector>

#include "convoy/parallel/run/pass_observer.h"

namespace convoy::train {

/// Size of a block's output, or of the gradient of it, over the micro-batches of a step.
struct BlockNumbers {
  int64_t block = 0;
  bool is_gradient = false;
  double squares = 0;                     ///< sum over finite elements
  double largest = 0;                     ///< magnitude of a finite element
  int64_t not_finite = 0;                 ///< elements that are NaN or infinite
  int64_t micro_batch = -1, sample = -1;  ///< first ones that are not finite; -1: none

  double norm() const;
};

/// Collects the numbers of a step, in the order in which blocks computed them.
class BlockRecorder : public parallel::PassObserver {
 public:
  void output(int64_t block, int64_t micro_batch, const at::Tensor& samples,
              const nn::Bundle& out) override;
  void gradient(int64_t block, int64_t micro_batch, const at::Tensor& samples,
                const nn::Bundle& gradients) override;

  const std::vector<BlockNumbers>& numbers() const { return numbers_; }
  /// Returns the first that is not finite; null: all are.
  const BlockNumbers* first_not_finite() const;

 private:
  void add(bool is_gradient, int64_t block, int64_t micro_batch, const at::Tensor& samples,
           const nn::Bundle& bundle);

  std::vector<BlockNumbers> numbers_;
  int64_t first_not_finite_ = -1;
};

}  // namespace convoy::train
