#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "convoy/base/tensor_memory.h"

namespace convoy::parallel {

/// Flat buffers that are used again and again, and never more of them than were taken at a time:
/// what is free goes before another length is allocated. So a step's pool is as large as the most
/// that its program has alive.
class Pool {
 public:
  explicit Pool(at::TensorOptions options = {}) : options_(options) {}

  /// [count], of any content.
  at::Tensor take(int64_t count);
  /// Gives back what take() returned. Views of it have no memory from some later take() on.
  void give(at::Tensor buffer);

  /// Elements of all buffers, taken or not, at their most.
  int64_t num_elements() const { return most_; }

 private:
  void let_go();

  at::TensorOptions options_;
  std::vector<at::Tensor> free_;
  PooledBytes pooled_;
  int64_t num_elements_ = 0;  // of all buffers
  int64_t taken_ = 0, most_ = 0;
};

}  // namespace convoy::parallel
