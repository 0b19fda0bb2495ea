#include "convoy/comm/thread/thread_engine.h"

#include <ATen/Functions.h>

#include "convoy/base/error.h"
#include "convoy/comm/thread/meeting.h"

namespace convoy::comm {

namespace {

class Done : public Work {
 public:
  void wait() override {}
};

/// Work of this engine is finished when the call returns: each thread reduces its own slice.
class ThreadEngine : public Engine {
 public:
  ThreadEngine(int rank, int size, std::shared_ptr<Meeting> meeting)
      : rank_(rank), size_(size), meeting_(std::move(meeting)) {}

  const char* name() const override { return "threads"; }

  std::shared_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op,
                                   const std::string& label) override {
    at::NoGradGuard no_grad;
    auto flat = tensor.view({-1});
    auto all = meeting_->exchange(rank_, std::make_shared<at::Tensor>(flat), label);
    const int64_t count = flat.numel();
    const int64_t begin = count * rank_ / size_;
    const int64_t length = count * (rank_ + 1) / size_ - begin;
    auto slice = [&](int r) { return peer(all, r, count, label).narrow(0, begin, length); };
    auto total = slice(0).to(flat.device()).clone();
    for (int r = 1; r < size_; ++r) {
      auto part = slice(r).to(flat.device());
      if (op == ReduceOp::Sum) {
        total.add_(part);
      } else {
        at::maximum_out(total, total, part);
      }
    }
    for (int r = 0; r < size_; ++r) slice(r).copy_(total);
    meeting_->barrier(rank_, label);
    return std::make_shared<Done>();
  }

  std::shared_ptr<Work> broadcast(at::Tensor tensor, int root, const std::string& label) override {
    at::NoGradGuard no_grad;
    auto flat = tensor.view({-1});
    auto all = meeting_->exchange(rank_, std::make_shared<at::Tensor>(flat), label);
    const auto& source = peer(all, root, flat.numel(), label);
    if (rank_ != root && source.data_ptr() != flat.data_ptr()) flat.copy_(source);
    meeting_->barrier(rank_, label);
    return std::make_shared<Done>();
  }

  std::shared_ptr<Work> all_gather(at::Tensor out, at::Tensor in,
                                   const std::string& label) override {
    at::NoGradGuard no_grad;
    auto all = meeting_->exchange(rank_, std::make_shared<at::Tensor>(in), label);
    for (int r = 0; r < size_; ++r) out[r].copy_(peer(all, r, in.numel(), label));
    meeting_->barrier(rank_, label);
    return std::make_shared<Done>();
  }

  void abort(const std::string& reason) override { meeting_->abort(reason); }

 private:
  const at::Tensor& peer(const std::vector<Meeting::Item>& all, int r, int64_t count,
                         const std::string& label) const {
    const auto& tensor = *static_cast<const at::Tensor*>(all[static_cast<size_t>(r)].get());
    if (tensor.numel() != count) {
      meeting_->abort(fmt::format("'{}' has different sizes on the ranks", label));
      fail<CommunicationError>("comm", "'{}' has {} elements on rank {} and {} on rank {}", label,
                               count, rank_, tensor.numel(), r);
    }
    return tensor;
  }

  int rank_;
  int size_;
  std::shared_ptr<Meeting> meeting_;
};

}  // namespace

std::vector<Group> make_thread_groups(int size, std::chrono::milliseconds timeout) {
  auto meeting = std::make_shared<Meeting>(size, timeout);
  std::vector<Group> groups;
  for (int r = 0; r < size; ++r) {
    groups.emplace_back(r, size, std::make_shared<ThreadEngine>(r, size, meeting));
  }
  return groups;
}

}  // namespace convoy::comm
