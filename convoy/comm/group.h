#pragma once

#include "convoy/comm/engine.h"

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
    explicit Handle(std::shared_ptr<Work> work) : work_(std::move(work)) {}
    void wait() {
      if (work_) work_->wait();
      work_.reset();
    }

   private:
    std::shared_ptr<Work> work_;
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
  void count(const at::Tensor& tensor) const;

  int rank_ = 0;
  int size_ = 1;
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Traffic> traffic_;
};

}  // namespace convoy::comm
