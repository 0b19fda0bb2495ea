#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "convoy/comm/engine.h"

// An engine over another one, on links that are as slow as a test wants them.
namespace convoy::comm {

using PaceClock = std::chrono::steady_clock;

/// When the operations on a link end, which they do one after the other.
class PacedLink {
 public:
  explicit PacedLink(int num_ranks) : num_ranks_(num_ranks) {}

  /// One of the ranks begins its n-th operation; the last one's arrival begins the transfer.
  void arrive(size_t n, double seconds) {
    const std::lock_guard lock(mutex_);
    if (operations_.size() <= n) operations_.resize(n + 1);
    auto& [arrived, end] = operations_[n];
    if (++arrived < num_ranks_) return;
    free_ = std::max(free_, PaceClock::now()) +
            std::chrono::duration_cast<PaceClock::duration>(std::chrono::duration<double>(seconds));
    end = free_;
    all_here_.notify_all();
  }

  void await(size_t n) {
    std::unique_lock lock(mutex_);
    all_here_.wait(lock,
                   [&] { return operations_.size() > n && operations_[n].first == num_ranks_; });
    const auto end = operations_[n].second;
    lock.unlock();
    std::this_thread::sleep_until(end);
  }

 private:
  int num_ranks_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<std::pair<int, PaceClock::time_point>> operations_;  // who has arrived, and its end
  PaceClock::time_point free_;
};

/// The links of a job: of each group's collectives, and of each direction between two ranks.
class PacedLinks {
 public:
  std::shared_ptr<PacedLink> of_group(const std::string& name, int num_ranks) {
    const std::lock_guard lock(mutex_);
    auto& out = groups_[name];
    if (!out) out = std::make_shared<PacedLink>(num_ranks);
    return out;
  }
  std::shared_ptr<PacedLink> of_pair(const std::string& name, int from, int to) {
    return of_group(name + " " + std::to_string(from) + " to " + std::to_string(to), 1);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<PacedLink>> groups_;
};

/// How long a group's collectives of so many bytes take, as often as they pass its links (a sum
/// twice, a gather once), and a message.
struct Paces {
  std::function<double(double bytes, int passes)> collective;
  std::function<double(double bytes)> message;
};

/// What a group's engine does, at a pace. Ranks of one name share its links.
class PacedEngine : public Engine {
 public:
  PacedEngine(std::shared_ptr<Engine> inner, std::shared_ptr<PacedLinks> links, std::string name,
              int rank, int size, Paces paces)
      : inner_(std::move(inner)),
        links_(std::move(links)),
        name_(std::move(name)),
        rank_(rank),
        group_(links_->of_group(name_, size)),
        paces_(std::move(paces)) {}

  const char* name() const override { return "paced"; }
  bool adds() const override { return inner_->adds(); }

  std::shared_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op, const Call& call) override {
    return paced(bytes_of(tensor), 2, [&] { return inner_->all_reduce(tensor, op, call); });
  }
  std::shared_ptr<Work> reduce_scatter(at::Tensor out, at::Tensor in, const Counts& counts,
                                       ReduceOp op, const Call& call) override {
    return paced(bytes_of(in), 1,
                 [&] { return inner_->reduce_scatter(out, in, counts, op, call); });
  }
  std::shared_ptr<Work> all_gather(at::Tensor out, at::Tensor in, const Counts& counts,
                                   const Call& call) override {
    return paced(bytes_of(out), 1, [&] { return inner_->all_gather(out, in, counts, call); });
  }
  std::shared_ptr<Work> broadcast(at::Tensor tensor, int root, const Call& call) override {
    return inner_->broadcast(tensor, root, call);  // of a start only
  }
  std::shared_ptr<Work> all_to_all(at::Tensor out, const Counts& receive, at::Tensor in,
                                   const Counts& send, const Call& call) override {
    return inner_->all_to_all(out, receive, in, send, call);
  }
  std::shared_ptr<Work> send(at::Tensor tensor, int to, const Call& call) override {
    links_->of_pair(name_, rank_, to)->arrive(sent_[to]++, paces_.message(bytes_of(tensor)));
    return inner_->send(tensor, to, call);
  }
  std::shared_ptr<Work> receive(at::Tensor tensor, int from, const Call& call) override {
    return then(inner_->receive(tensor, from, call), [link = links_->of_pair(name_, from, rank_),
                                                      n = received_[from]++] { link->await(n); });
  }
  void abort(const std::string& reason) override { inner_->abort(reason); }

 private:
  static double bytes_of(const at::Tensor& tensor) { return static_cast<double>(tensor.nbytes()); }
  template <class Start>
  std::shared_ptr<Work> paced(double bytes, int passes, const Start& start) {
    const auto n = operations_++;
    auto work = start();
    group_->arrive(n, paces_.collective(bytes, passes));
    return then(std::move(work), [link = group_, n] { link->await(n); });
  }

  std::shared_ptr<Engine> inner_;
  std::shared_ptr<PacedLinks> links_;
  std::string name_;
  int rank_;
  std::shared_ptr<PacedLink> group_;
  Paces paces_;
  size_t operations_ = 0;
  std::map<int, size_t> sent_, received_;
};

}  // namespace convoy::comm
