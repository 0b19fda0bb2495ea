#pragma once

#include "convoy/comm/engine.h"
#include "convoy/comm/range.h"

namespace convoy::comm {

/// How much a group has said so far.
struct Traffic {
  int64_t exchanges = 0;  ///< collective operations
  int64_t bytes = 0;      ///< payload bytes of this rank
};

/// Some ranks that talk to each other: a small value, copied freely. A default Group has one rank
/// and its operations do nothing, so one device needs no special case.
class Group {
 public:
  Group() = default;
  Group(int rank, int size, std::shared_ptr<Engine> engine);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const char* engine() const { return engine_ ? engine_->name() : "none"; }

  /// A collective under way; wait() on a default handle returns at once.
  class Handle {
   public:
    Handle() = default;
    Handle(std::shared_ptr<Work> work, std::string label)
        : work_(std::move(work)), label_(std::move(label)) {}
    void wait() {
      if (!work_) return;
      const Range range([&] { return "wait: " + label_; });
      work_->wait();
      work_.reset();
    }

   private:
    std::shared_ptr<Work> work_;
    std::string label_;
  };

  /// In place. Starts now; the result is there after Handle::wait().
  Handle start_all_reduce(at::Tensor tensor, ReduceOp op, const std::string& label) const;

  void all_reduce(at::Tensor tensor, ReduceOp op, const std::string& label) const {
    start_all_reduce(std::move(tensor), op, label).wait();
  }
  void broadcast(at::Tensor tensor, int root, const std::string& label) const;
  /// The ranks' tensors (equal shapes) stacked along a new first dimension.
  at::Tensor all_gather(const at::Tensor& tensor, const std::string& label) const;
  void barrier(const std::string& label) const;
  void abort(const std::string& reason) const;

  Traffic traffic() const { return traffic_ ? *traffic_ : Traffic{}; }

 private:
  /// Counts the exchange and starts it, each in its range of the trace.
  template <class Start>
  Handle begin(const at::Tensor& tensor, const std::string& label, const Start& start) const;

  int rank_ = 0;
  int size_ = 1;
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Traffic> traffic_;
};

}  // namespace convoy::comm
