#pragma once

#include "convoy/comm/engine.h"

namespace convoy::comm {

/// Traffic of a group so far.
struct Traffic {
  int64_t collectives = 0;  ///< collective operations
  int64_t bytes = 0;        ///< payload bytes of this rank
  /// Payload bytes of sums; a gather or a reduce-scatter, half of a sum, counts half the bytes of
  /// the whole.
  int64_t sum_bytes = 0;
  double waited = 0;  ///< seconds in operations that return when they are done
};

/// Some ranks that communicate with each other: a small value, copied freely. A default Group has
/// one rank and its operations do nothing (or copy), so one device needs no special case.
///
/// Tensors are contiguous, of float, double, half, bfloat16 or an integer type, and stay untouched
/// until the handle is waited for. All ranks call the same operations in the same order with the
/// same label; each throws CommunicationError when another rank is not there in time or differs.
class Group {
 public:
  Group() = default;
  Group(int rank, int size, std::shared_ptr<Engine> engine);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const char* engine() const { return engine_ ? engine_->name() : "none"; }
  /// Whether a message leaves only when its receiver has asked for it: call start_receive early.
  bool sends_when_asked() const { return engine_ && engine_->sends_when_asked(); }

  /// A collective under way; wait() on a default handle returns at once.
  class Handle {
   public:
    Handle() = default;
    Handle(std::shared_ptr<Work> work, std::string label)
        : work_(std::move(work)), label_(std::move(label)) {}
    void wait();
    /// Whether it is known to have ended; wait() still tells how.
    bool done() const { return !work_ || work_->done(); }

   private:
    std::shared_ptr<Work> work_;
    std::string label_;
  };

  /// Reduces `tensor` over the ranks, in place. Starts now; the result is there after
  /// Handle::wait(). An average is the sum divided by size(), and needs a floating-point tensor.
  Handle start_all_reduce(at::Tensor tensor, ReduceOp op, const std::string& label) const;
  void all_reduce(at::Tensor tensor, ReduceOp op, const std::string& label) const;

  /// out = this rank's part of the reduced `in`, which has counts[r] elements for rank r; without
  /// counts all parts have as many elements as out. `out` may be its place in `in` unless `op` is
  /// Add.
  Handle start_reduce_scatter(at::Tensor out, at::Tensor in, ReduceOp op, const std::string& label,
                              const Counts& counts = {}) const;
  void reduce_scatter(at::Tensor out, at::Tensor in, ReduceOp op, const std::string& label,
                      const Counts& counts = {}) const;

  /// out = the ranks' `in` one after the other, counts[r] elements of rank r; without counts all
  /// have as many elements as this rank's. `in` may be its place in `out`.
  Handle start_all_gather(at::Tensor out, at::Tensor in, const std::string& label,
                          const Counts& counts = {}) const;
  void all_gather(at::Tensor out, at::Tensor in, const std::string& label,
                  const Counts& counts = {}) const;
  /// Returns the ranks' tensors (equal shapes) stacked along a new first dimension.
  at::Tensor all_gather(const at::Tensor& tensor, const std::string& label) const;

  /// Gathers rows, [any number, ...] with equal further sizes, on rank 0, one rank's after the
  /// other; undefined on other ranks.
  at::Tensor gather_rows(const at::Tensor& rows, const std::string& label) const;

  Handle start_broadcast(at::Tensor tensor, int root, const std::string& label) const;
  void broadcast(at::Tensor tensor, int root, const std::string& label) const;

  /// Part r of `in` goes to rank r, part r of `out` comes from rank r: send[r] and receive[r]
  /// elements; without counts all parts are equal.
  Handle start_all_to_all(at::Tensor out, at::Tensor in, const std::string& label,
                          const Counts& receive = {}, const Counts& send = {}) const;
  void all_to_all(at::Tensor out, at::Tensor in, const std::string& label,
                  const Counts& receive = {}, const Counts& send = {}) const;

  /// Sends to and receives from another rank. Messages between two ranks arrive in the order sent.
  /// Over NCCL a send may end only with its receive: ranks that send to each other, or around a
  /// ring, use start_send_receive, which does both at once.
  Handle start_send(at::Tensor tensor, int to, const std::string& label) const;
  Handle start_receive(at::Tensor tensor, int from, const std::string& label) const;
  Handle start_send_receive(at::Tensor out, int to, at::Tensor in, int from,
                            const std::string& label) const;

  /// Waits for what was started, and counts the time.
  void wait(Handle& handle) const;

  /// Connects all of `pairs`, in this order, which is the same on all ranks. Over NCCL two ranks
  /// would otherwise connect at their first message, and wait for each other without a report.
  /// Throws CommunicationError naming the rank that did not come.
  void connect_pairs(const Pairs& pairs, const std::string& label) const;

  void barrier(const std::string& label) const;
  void abort(const std::string& reason) const;

  /// A group with the same ranks and traffic over the engine that `wrap` returns; a group of one
  /// rank stays as it is.
  Group over(const std::function<std::shared_ptr<Engine>(std::shared_ptr<Engine>)>& wrap) const;

  Traffic traffic() const { return traffic_ ? *traffic_ : Traffic{}; }
  /// Traffic of several groups together: copies of one count once.
  static Traffic traffic_of(const std::vector<Group>& groups);

 private:
  /// Counts the collective (of a message only the sender does) and starts it, each in its range of
  /// the trace.
  template <class Start>
  Handle begin(const at::Tensor& tensor, const std::string& label, const Start& start,
               bool counts = true) const;
  /// Starts an operation, waits for it, and counts the time.
  template <class Start>
  void finish(const Start& start) const;
  Handle reduce(at::Tensor tensor, ReduceOp op, const Call& call) const;
  Handle scatter(at::Tensor out, at::Tensor in, ReduceOp op, const Counts& counts,
                 const Call& call) const;
  Handle gather(at::Tensor out, at::Tensor in, const Counts& counts, const Call& call) const;
  Handle call_all_to_all(at::Tensor out, at::Tensor in, const Counts& receive, const Counts& send,
                         const Call& call) const;
  Counts parts(const Counts& given, const at::Tensor& all, const char* what,
               const std::string& label) const;

  int rank_ = 0;
  int size_ = 1;
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Traffic> traffic_;
};

}  // namespace convoy::comm
