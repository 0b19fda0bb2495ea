#pragma once

#include <torch/nn/module.h>

#include <memory>

#include "convoy/comm/group.h"

namespace convoy::wrappers {

/// Averages the gradients of a module whose owner runs his own loop: parameters report to it when
/// their gradient is complete, full buckets start their collective at once, and the rest is
/// finished when backward ends. A parameter without gradient counts as zero.
class GradientReducer {
 public:
  GradientReducer(torch::nn::Module& module, const comm::Group& group, int64_t bucket_bytes);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Brings buffers in step with rank 0.
  void before_forward();

  class NoSync {
   public:
    explicit NoSync(bool* sync) : sync_(sync), before_(*sync) { *sync_ = false; }
    ~NoSync() { *sync_ = before_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    bool* sync_;
    bool before_;
  };
  NoSync no_sync();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace convoy::wrappers
