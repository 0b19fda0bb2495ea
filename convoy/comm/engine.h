#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace convoy::comm {

/// Reductions of a collective. Add: the sum, in rank order, onto the content of the output; of
/// reduce_scatter only.
enum class ReduceOp { Sum, Average, Max, Add };

/// A collective under way.
class Work {
 public:
  virtual ~Work() = default;
  /// Returns when the result is in place. Throws CommunicationError naming the label.
  virtual void wait() = 0;
  /// Whether it is known to have ended.
  virtual bool done() const { return false; }
};

/// Work that waits for `work`, then runs `finish` in the thread that waits.
std::shared_ptr<Work> then(std::shared_ptr<Work> work, std::function<void()> finish);

/// Label and manner of an operation's call.
struct Call {
  const std::string& label;
  bool waits_at_once = false;  ///< the caller does nothing else until it is done
};

/// Elements of each rank's part.
using Counts = std::vector<int64_t>;

/// Ranks that send to each other, two by two.
using Pairs = std::vector<std::pair<int, int>>;

/// Moves tensors between the ranks of a Group. One folder per engine.
///
/// Every rank of the group calls the same operations in the same order. Tensors are contiguous and
/// stay alive and untouched until the work is waited for. Where parts are concerned they are flat.
/// The label says what the operation is for; it is the same on all ranks and appears in traces and
/// in the message a person reads when a rank is stuck.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual const char* name() const = 0;
  virtual bool adds() const { return false; }
  /// Whether a message leaves only when its receiver has asked for it: call receive early.
  virtual bool sends_when_asked() const { return false; }

  /// `op` is Sum or Max, here and below.
  virtual std::shared_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op, const Call& call) = 0;
  /// out [counts[rank]] = this rank's part of the reduced in [sum of counts]. `op` may be Add where
  /// the engine adds().
  virtual std::shared_ptr<Work> reduce_scatter(at::Tensor out, at::Tensor in, const Counts& counts,
                                               ReduceOp op, const Call& call) = 0;
  /// out [sum of counts] = the ranks' in [counts[rank]], in rank order.
  virtual std::shared_ptr<Work> all_gather(at::Tensor out, at::Tensor in, const Counts& counts,
                                           const Call& call) = 0;
  virtual std::shared_ptr<Work> broadcast(at::Tensor tensor, int root, const Call& call) = 0;
  /// Part r of `in` goes to rank r, part r of `out` comes from rank r.
  virtual std::shared_ptr<Work> all_to_all(at::Tensor out, const Counts& receive, at::Tensor in,
                                           const Counts& send, const Call& call) = 0;
  virtual std::shared_ptr<Work> send(at::Tensor tensor, int to, const Call& call) = 0;
  virtual std::shared_ptr<Work> receive(at::Tensor tensor, int from, const Call& call) = 0;
  /// Sends and receives at once: no rank waits for the order in which the others call.
  virtual std::shared_ptr<Work> send_receive(at::Tensor out, int to, at::Tensor in, int from,
                                             const Call& call);

  /// Makes now what an engine would else make at the first message of two ranks, one pair after the
  /// other: all ranks call it with the same pairs. `word` travels.
  virtual void connect_pairs(const Pairs& /*pairs*/, at::Tensor /*word*/, const Call& /*call*/) {}

  /// Makes every present and later wait of the group fail with `reason`.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace convoy::comm
