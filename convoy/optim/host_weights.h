#pragma once

#include <ATen/core/Tensor.h>

#include "convoy/base/lanes.h"
#include "convoy/optim/optimizer.h"

// Weights of a stretch in a processor's memory, as updates of one pass read and write them.
namespace convoy::optim {

struct HostWeights {
  explicit HostWeights(const FlatRange& stretch)
      : weights(stretch.weights.mutable_data_ptr<float>()),
        grads(stretch.grads.const_data_ptr<float>()),
        rounded(rounds_here(stretch.rounded)
                    ? static_cast<lanes::Bf16*>(stretch.rounded.mutable_data_ptr())
                    : nullptr) {}

  [[gnu::always_inline]] void store(const lanes::Floats& values, int64_t i, int64_t count) const {
    lanes::store(values, weights + i, count);
    if (rounded != nullptr) lanes::store(values, rounded + i, count);
  }
  /// Writes the rounded weights where store() could not: in a dtype that is not bf16.
  void finish(const FlatRange& stretch) const {
    if (stretch.rounded.defined() && rounded == nullptr) stretch.rounded.copy_(stretch.weights);
  }

  float* weights;
  const float* grads;
  lanes::Bf16* rounded;  ///< or null

 private:
  static bool rounds_here(const at::Tensor& rounded) {
    return rounded.defined() && rounded.is_cpu() && rounded.is_contiguous() &&
           rounded.scalar_type() == at::kBFloat16;
  }
};

}  // namespace convoy::optim
