#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace convoy::parallel {

/// Flat buffers that are used again and again: after the first step nothing is allocated.
class Pool {
 public:
  explicit Pool(at::TensorOptions options = {}) : options_(options) {}

  /// [count], of any content.
  at::Tensor take(int64_t count);
  /// Gives back what take() returned.
  void give(at::Tensor buffer);

  /// Elements of all buffers, taken or not.
  int64_t num_elements() const { return num_elements_; }

 private:
  at::TensorOptions options_;
  std::vector<at::Tensor> free_;
  int64_t num_elements_ = 0;
};

}  // namespace convoy::parallel
