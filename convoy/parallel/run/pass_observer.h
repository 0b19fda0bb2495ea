#pragma once

#include <cstdint>

#include "convoy/nn/block.h"

namespace convoy::parallel {

/// Observer of the outputs and gradients of this rank's blocks in a training step.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  /// Called after a block's forward. `samples` [rows]: index of each row in the step's global
  /// batch.
  virtual void output(int64_t block, int64_t micro_batch, const at::Tensor& samples,
                      const nn::Bundle& out) = 0;
  /// Called before a block's backward, with the gradients of what it returned.
  virtual void gradient(int64_t block, int64_t micro_batch, const at::Tensor& samples,
                        const nn::Bundle& gradients) = 0;
};

}  // namespace convoy::parallel
