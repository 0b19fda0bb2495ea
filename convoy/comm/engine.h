#pragma once

#include <torch/types.h>

#include <memory>
#include <string>

namespace convoy::comm {

enum class ReduceOp { Sum, Max };

/// A collective under way.
class Work {
 public:
  virtual ~Work() = default;
  /// Returns when the result is in place. Throws CommunicationError naming the label.
  virtual void wait() = 0;
};

/// What moves tensors between the ranks of a Group. One folder per engine.
///
/// Every rank of the group calls the same operations in the same order. Tensors are contiguous and
/// stay alive and untouched until the work is waited for. `label` says what the operation is for;
/// it appears in traces and in the message a person reads when a rank is stuck.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual const char* name() const = 0;
  virtual std::shared_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op,
                                           const std::string& label) = 0;
  virtual std::shared_ptr<Work> broadcast(at::Tensor tensor, int root,
                                          const std::string& label) = 0;
  /// out [size x n] = the ranks' inputs [n], in rank order.
  virtual std::shared_ptr<Work> all_gather(at::Tensor out, at::Tensor in,
                                           const std::string& label) = 0;
  /// Makes every present and later wait of the group fail with `reason`.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace convoy::comm
