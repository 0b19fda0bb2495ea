#include "convoy/comm/thread/thread_engine.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/comm/shm/shm_engine.h"
#include "convoy/comm/staged_engine.h"
#include "convoy/comm/thread/thread_barrier.h"
#include "convoy/comm/thread/thread_mailbox.h"
#include "convoy/comm/ticket_work.h"

namespace convoy::comm {

namespace {

/// Engine for ranks that are threads. Collectives on GPU tensors are complete when the call
/// returns: each thread reduces its own part, and reads and writes the tensors of the others. The
/// receiver of a message copies it. Other tensors go through the host.
class ThreadEngine : public Engine {
 public:
  ThreadEngine(int rank, int size, std::shared_ptr<ThreadBarrier> barrier,
               std::shared_ptr<ThreadMailbox> mailbox, std::shared_ptr<Engine> host)
      : rank_(rank),
        size_(size),
        barrier_(std::move(barrier)),
        mailbox_(std::move(mailbox)),
        host_(std::move(host)) {}

  const char* name() const override { return host_->name(); }
  bool adds() const override { return host_->adds(); }

  std::shared_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op, const Call& call) override {
    if (tensor.is_cpu()) return host_->all_reduce(tensor, op, call);
    at::NoGradGuard no_grad;
    auto flat = tensor.view({-1});
    auto all = barrier_->gather(rank_, std::make_shared<at::Tensor>(flat), call.label);
    const int64_t count = flat.numel();
    const int64_t begin = count * rank_ / size_;
    const int64_t length = count * (rank_ + 1) / size_ - begin;
    const auto total = sum_of(all, {begin, length}, flat, op, call.label);
    for (int r = 0; r < size_; ++r) {
      peer(all, r, count, call.label).narrow(0, begin, length).copy_(total);
    }
    barrier_->barrier(rank_, call.label);
    return std::make_shared<DoneWork>();
  }

  std::shared_ptr<Work> reduce_scatter(at::Tensor out, at::Tensor in, const Counts& counts,
                                       ReduceOp op, const Call& call) override {
    // The host adds up 16-bit numbers in 32 bits.
    if (in.is_cpu() || at::isReducedFloatingType(in.scalar_type())) {
      return host_->reduce_scatter(out, in, counts, op, call);
    }
    at::NoGradGuard no_grad;
    auto all = barrier_->gather(rank_, std::make_shared<at::Tensor>(in), call.label);
    const auto begin = std::accumulate(counts.begin(), counts.begin() + rank_, int64_t{0});
    const int64_t length = counts[static_cast<size_t>(rank_)];
    const auto sum = sum_of(all, {begin, length}, in, op, call.label);
    barrier_->barrier(rank_, call.label);
    out.copy_(sum);  // which may be a part of `in`
    return std::make_shared<DoneWork>();
  }

  std::shared_ptr<Work> all_gather(at::Tensor out, at::Tensor in, const Counts& counts,
                                   const Call& call) override {
    if (in.is_cpu()) return host_->all_gather(out, in, counts, call);
    at::NoGradGuard no_grad;
    auto all = barrier_->gather(rank_, std::make_shared<at::Tensor>(in), call.label);
    int64_t begin = 0;
    for (int r = 0; r < size_; ++r) {
      const int64_t count = counts[static_cast<size_t>(r)];
      out.narrow(0, begin, count).copy_(peer(all, r, count, call.label));
      begin += count;
    }
    barrier_->barrier(rank_, call.label);
    return std::make_shared<DoneWork>();
  }

  std::shared_ptr<Work> broadcast(at::Tensor tensor, int root, const Call& call) override {
    if (tensor.is_cpu()) return host_->broadcast(tensor, root, call);
    at::NoGradGuard no_grad;
    auto flat = tensor.view({-1});
    auto all = barrier_->gather(rank_, std::make_shared<at::Tensor>(flat), call.label);
    const auto& source = peer(all, root, flat.numel(), call.label);
    if (rank_ != root && source.data_ptr() != flat.data_ptr()) flat.copy_(source);
    barrier_->barrier(rank_, call.label);
    return std::make_shared<DoneWork>();
  }

  std::shared_ptr<Work> all_to_all(at::Tensor out, const Counts& receive, at::Tensor in,
                                   const Counts& send, const Call& call) override {
    return host_->all_to_all(out, receive, in, send, call);
  }

  std::shared_ptr<Work> send(at::Tensor tensor, int to, const Call& call) override {
    if (tensor.is_cpu()) return host_->send(tensor, to, call);
    return mailbox_->send(tensor, rank_, to, call.label);
  }

  std::shared_ptr<Work> receive(at::Tensor tensor, int from, const Call& call) override {
    if (tensor.is_cpu()) return host_->receive(tensor, from, call);
    return mailbox_->receive(tensor, from, rank_, call.label);
  }

  void abort(const std::string& reason) override {
    barrier_->abort(reason);
    mailbox_->abort(reason);
    host_->abort(reason);
  }

 private:
  struct Range {
    int64_t begin, length;
  };

  /// Sum of a range of all ranks' tensors, in their order, on the device of `own`.
  at::Tensor sum_of(const std::vector<ThreadBarrier::Item>& all, Range range, const at::Tensor& own,
                    ReduceOp op, const std::string& label) const {
    const auto part_of = [&](int r) {
      return peer(all, r, own.numel(), label).narrow(0, range.begin, range.length).to(own.device());
    };
    auto total = part_of(0).clone();
    for (int r = 1; r < size_; ++r) {
      const auto part = part_of(r);
      if (op == ReduceOp::Sum) {
        total.add_(part);
      } else {
        at::maximum_out(total, total, part);
      }
    }
    return total;
  }

  const at::Tensor& peer(const std::vector<ThreadBarrier::Item>& all, int r, int64_t count,
                         const std::string& label) const {
    const auto& tensor = *static_cast<const at::Tensor*>(all[static_cast<size_t>(r)].get());
    if (tensor.numel() != count) {
      barrier_->abort(fmt::format("'{}' has different sizes on the ranks", label));
      fail<CommunicationError>("comm", "'{}' has {} elements on rank {} and {} on rank {}", label,
                               count, rank_, tensor.numel(), r);
    }
    return tensor;
  }

  int rank_;
  int size_;
  std::shared_ptr<ThreadBarrier> barrier_;
  std::shared_ptr<ThreadMailbox> mailbox_;
  std::shared_ptr<Engine> host_;
};

}  // namespace

std::vector<Group> make_thread_groups(int size, std::chrono::milliseconds timeout,
                                      const std::vector<int>& names, int num_threads) {
  auto barrier = std::make_shared<ThreadBarrier>(size, timeout, names);
  auto mailbox = std::make_shared<ThreadMailbox>(size, timeout, names);
  auto segment = shm::Segment::of_threads(size, num_threads);
  segment->set_names(names);
  std::vector<Group> groups;
  for (int r = 0; r < size; ++r) {
    auto host = make_staged_engine(make_shm_engine("threads", segment, r, timeout), at::kCPU);
    groups.emplace_back(r, size,
                        std::make_shared<ThreadEngine>(r, size, barrier, mailbox, std::move(host)));
  }
  return groups;
}

Group ThreadConnector::connect(int rank, const std::vector<int>& ranks, const std::string& name) {
  const std::lock_guard lock(mutex_);
  auto& groups = groups_[name];
  if (groups.empty()) {
    groups = make_thread_groups(static_cast<int>(ranks.size()), timeout_, ranks, num_threads_);
  }
  return groups.at(
      static_cast<size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin()));
}

}  // namespace convoy::comm
