#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/comm/groups.h"
#include "convoy/comm/ticket_work.h"
#include "convoy/planner/time/cluster.h"
#include "convoy/shm/worker.h"
#include "tests/parallel_torch/own_time.h"

// An engine for threads whose messages take as long as the links of a cluster say. Collectives are
// made of such messages: inside a host each rank sends what is not its own, then each host one copy
// to the others, as GroupTimes has it.
namespace convoy::parallel {

/// When messages arrive. A rank's messages to others of its host leave it one after the other,
/// those of a host to others likewise; a link's latency keeps nobody from sending the next.
class Links {
 public:
  explicit Links(planner::Cluster cluster)
      : cluster_(std::move(cluster)),
        ranks_(static_cast<size_t>(cluster_.num_devices())),
        hosts_(static_cast<size_t>(cluster_.num_hosts)) {}

  /// Messages take time from now on.
  void pace() { paced_ = true; }

  own_time::Time send(int from, int to, size_t bytes) {
    const auto now = own_time::now();
    if (!paced_) return now;
    const int host = cluster_.host_of(from);
    const bool inside = host == cluster_.host_of(to);
    const auto& link = inside ? cluster_.inside : cluster_.between;
    auto& free = inside ? ranks_[static_cast<size_t>(from)] : hosts_[static_cast<size_t>(host)];
    const std::lock_guard lock(mutex_);
    free = std::max(free, now) +
           own_time::of_seconds(static_cast<double>(bytes) / link.bytes_per_second);
    return free + own_time::of_seconds(link.seconds);
  }

  int host_of(int rank) const { return cluster_.host_of(rank); }

 private:
  const planner::Cluster cluster_;
  std::atomic<bool> paced_ = false;
  std::mutex mutex_;
  std::vector<own_time::Time> ranks_, hosts_;  // when the last message has left
};

/// Messages between the ranks of a group, by their places in it.
class Mail {
 public:
  enum class Of { Collectives, Messages };

  Mail(size_t ranks, std::chrono::milliseconds timeout) : timeout_(timeout), boxes_(ranks) {}

  void post(Of of, int from, int to, const at::Tensor& values, own_time::Time arrives) {
    auto& box = boxes_[static_cast<size_t>(to)];
    const std::lock_guard lock(box.mutex);
    box.queues[{of, from}].push_back({values.clone(), arrives});
    box.changed.notify_all();
  }

  /// Returns when the next one has arrived.
  at::Tensor take(Of of, int from, int to, const std::string& label) {
    auto& box = boxes_[static_cast<size_t>(to)];
    std::unique_lock lock(box.mutex);
    auto& queue = box.queues[{of, from}];
    const bool came =
        box.changed.wait_for(lock, timeout_, [&] { return !queue.empty() || !box.reason.empty(); });
    if (!came || !box.reason.empty()) {
      fail<CommunicationError>("comm", "'{}' waited for rank {} of the group: {}", label, from,
                               came ? box.reason : "nothing came");
    }
    const auto message = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    own_time::sleep_until(message.arrives);
    return message.values;
  }

  void abort(const std::string& reason) {
    for (auto& box : boxes_) {
      const std::lock_guard lock(box.mutex);
      box.reason = reason;
      box.changed.notify_all();
    }
  }

 private:
  struct Message {
    at::Tensor values;
    own_time::Time arrives;
  };
  /// What comes for a rank.
  struct Box {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::pair<Of, int>, std::deque<Message>> queues;  // [of, from]
    std::string reason;
  };

  const std::chrono::milliseconds timeout_;
  std::vector<Box> boxes_;  // [to]
};

class PacedEngine : public comm::Engine {
 public:
  /// `ranks`: of the group, of which this is number `own`.
  PacedEngine(std::shared_ptr<Links> links, std::shared_ptr<Mail> mail, std::vector<int> ranks,
              int own)
      : links_(std::move(links)), mail_(std::move(mail)), ranks_(std::move(ranks)), own_(own) {
    for (int r = 0; r < size(); ++r) hosts_[host_of(r)].push_back(r);
  }

  const char* name() const override { return "paced"; }

  using WorkPtr = std::shared_ptr<comm::Work>;

  WorkPtr all_reduce(at::Tensor tensor, comm::ReduceOp op, const comm::Call& call) override {
    comm::Counts counts;
    const int64_t all = tensor.numel(), n = size();
    for (int64_t r = 0; r < n; ++r) counts.push_back(all * (r + 1) / n - all * r / n);
    return start([this, flat = tensor.view({-1}), counts, op, label = call.label] {
      const auto sum = scatter(flat, counts, op, label);
      flat.copy_(gather(sum, counts, label));
    });
  }
  WorkPtr reduce_scatter(at::Tensor out, at::Tensor in, const comm::Counts& counts,
                         comm::ReduceOp op, const comm::Call& call) override {
    return start(
        [=, this, label = call.label] { at::Tensor(out).copy_(scatter(in, counts, op, label)); });
  }
  WorkPtr all_gather(at::Tensor out, at::Tensor in, const comm::Counts& counts,
                     const comm::Call& call) override {
    return start(
        [=, this, label = call.label] { at::Tensor(out).copy_(gather(in, counts, label)); });
  }
  WorkPtr broadcast(at::Tensor tensor, int root, const comm::Call& call) override {
    return start([=, this, label = call.label] {
      for (int r = 0; own_ == root && r < size(); ++r) {
        if (r != own_) post(r, tensor);
      }
      if (own_ != root) at::Tensor(tensor).copy_(take(root, label).view_as(tensor));
    });
  }
  WorkPtr all_to_all(at::Tensor out, const comm::Counts& /*receive*/, at::Tensor in,
                     const comm::Counts& send, const comm::Call& call) override {
    return start([=, this, label = call.label] {
      std::vector<int> all(ranks_.size());
      std::iota(all.begin(), all.end(), 0);
      at::Tensor(out).copy_(at::cat(swap(all, in.split_with_sizes(send), label)));
    });
  }
  WorkPtr send(at::Tensor tensor, int to, const comm::Call&) override {
    mail_->post(Mail::Of::Messages, own_, to, tensor,
                links_->send(rank_of(own_), rank_of(to), tensor.nbytes()));
    return std::make_shared<comm::DoneWork>();
  }
  WorkPtr receive(at::Tensor tensor, int from, const comm::Call& call) override {
    return std::make_shared<Receive>([=, this, label = call.label] {
      const auto values = mail_->take(Mail::Of::Messages, from, own_, label);
      at::Tensor(tensor).copy_(values.view_as(tensor));
    });
  }
  void abort(const std::string& reason) override { mail_->abort(reason); }

 private:
  class Receive : public comm::Work {
   public:
    explicit Receive(std::function<void()> take) : take_(std::move(take)) {}
    void wait() override { take_(); }

   private:
    std::function<void()> take_;
  };
  class Collective : public comm::Work {
   public:
    Collective(std::shared_ptr<shm::Ticket> ticket, std::shared_ptr<own_time::Time> end)
        : ticket_(std::move(ticket)), end_(std::move(end)) {}
    void wait() override {
      ticket_->wait();
      own_time::reach(*end_);
    }
    bool done() const override { return ticket_->is_done(); }

   private:
    std::shared_ptr<shm::Ticket> ticket_;
    std::shared_ptr<own_time::Time> end_;
  };

  int size() const { return static_cast<int>(ranks_.size()); }
  int rank_of(int r) const { return ranks_[static_cast<size_t>(r)]; }

  /// One collective after the other, beside the computing.
  WorkPtr start(std::function<void()> run) {
    const auto end = std::make_shared<own_time::Time>();
    auto ticket = worker_.start([run = std::move(run), begin = own_time::now(), end] {
      const at::NoGradGuard no_grad;
      own_time::reach(begin);
      run();
      *end = own_time::last;
    });
    return std::make_shared<Collective>(std::move(ticket), end);
  }

  void post(int to, const at::Tensor& values) {
    mail_->post(Mail::Of::Collectives, own_, to, values,
                links_->send(rank_of(own_), rank_of(to), values.nbytes()));
  }
  at::Tensor take(int from, const std::string& label) {
    return mail_->take(Mail::Of::Collectives, from, own_, label);
  }

  /// Part n goes to number n of some ranks, part n of the result comes from it.
  std::vector<at::Tensor> swap(const std::vector<int>& with, const std::vector<at::Tensor>& parts,
                               const std::string& label) {
    // From the next one on around, so that not all send to the same one first.
    const auto own = std::find(with.begin(), with.end(), own_) - with.begin();
    for (size_t k = 1; k < with.size(); ++k) {
      const size_t n = (static_cast<size_t>(own) + k) % with.size();
      post(with[n], parts[n]);
    }
    std::vector<at::Tensor> out;
    for (size_t n = 0; n < with.size(); ++n) {
      out.push_back(with[n] == own_ ? parts[n].clone() : take(with[n], label));
    }
    return out;
  }

  static at::Tensor sum_of(const std::vector<at::Tensor>& parts, comm::ReduceOp op) {
    auto out = parts[0];
    for (size_t p = 1; p < parts.size(); ++p) {
      out = op == comm::ReduceOp::Max ? at::maximum(out, parts[p]) : out + parts[p];
    }
    return out;
  }

  int host_of(int r) const { return links_->host_of(rank_of(r)); }
  const std::vector<int>& here() const { return hosts_.at(host_of(own_)); }

  /// Which rank of a host has its part of what `r` gets or gives.
  int keeper(int host, int r) const {
    if (host_of(r) == host) return r;
    const auto &there = hosts_.at(host), &its = hosts_.at(host_of(r));
    const auto place = static_cast<size_t>(std::find(its.begin(), its.end(), r) - its.begin());
    return there[place % there.size()];
  }
  /// Whose parts a rank of this host has.
  std::vector<int> kept_by(int rank) const {
    std::vector<int> out;
    for (int r = 0; r < size(); ++r) {
      if (keeper(host_of(own_), r) == rank) out.push_back(r);
    }
    return out;
  }

  template <class T>
  static std::vector<T> of(const std::vector<int>& ranks, const std::vector<T>& all) {
    std::vector<T> out;
    for (const int r : ranks) out.push_back(all[static_cast<size_t>(r)]);
    return out;
  }

  /// This rank's part of the sum.
  at::Tensor scatter(const at::Tensor& in, const comm::Counts& counts, comm::ReduceOp op,
                     const std::string& label) {
    const auto parts = in.split_with_sizes(counts);
    std::vector<at::Tensor> to_here, own;
    for (const int r : here()) to_here.push_back(at::cat(of(kept_by(r), parts)));
    const auto kept = kept_by(own_);
    const auto sums = sum_of(swap(here(), to_here, label), op).split_with_sizes(of(kept, counts));
    for (size_t n = 0; n < kept.size(); ++n) {
      if (kept[n] == own_) {
        own.push_back(sums[n]);
      } else {
        post(kept[n], sums[n]);
      }
    }
    for (const auto& [host, there] : hosts_) {
      if (host != host_of(own_)) own.push_back(take(keeper(host, own_), label));
    }
    return sum_of(own, op);
  }

  /// All ranks' parts.
  at::Tensor gather(const at::Tensor& in, const comm::Counts& counts, const std::string& label) {
    for (const auto& [host, there] : hosts_) {
      if (host != host_of(own_)) post(keeper(host, own_), in);
    }
    std::vector<at::Tensor> kept, out(ranks_.size());
    for (const int r : kept_by(own_)) kept.push_back(r == own_ ? in : take(r, label));
    const auto all = swap(here(), std::vector<at::Tensor>(here().size(), at::cat(kept)), label);
    for (size_t n = 0; n < here().size(); ++n) {
      const auto from = kept_by(here()[n]);
      const auto parts = all[n].split_with_sizes(of(from, counts));
      for (size_t k = 0; k < from.size(); ++k) out[static_cast<size_t>(from[k])] = parts[k];
    }
    return at::cat(out);
  }

  std::shared_ptr<Links> links_;
  std::shared_ptr<Mail> mail_;
  const std::vector<int> ranks_;
  const int own_;
  std::map<int, std::vector<int>> hosts_;  // the group's ranks there
  shm::Worker worker_;
};

/// Makes groups of ranks over links.
class PacedConnector {
 public:
  PacedConnector(const planner::Cluster& cluster, std::chrono::milliseconds timeout)
      : links_(std::make_shared<Links>(cluster)), timeout_(timeout) {}

  comm::Group connect(int rank, const std::vector<int>& ranks, const std::string& name) {
    const std::lock_guard lock(mutex_);
    auto& mail = mail_[name];
    if (!mail) mail = std::make_shared<Mail>(ranks.size(), timeout_);
    const auto own = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    return {static_cast<int>(own), static_cast<int>(ranks.size()),
            std::make_shared<PacedEngine>(links_, mail, ranks, static_cast<int>(own))};
  }

  void pace() { links_->pace(); }

  /// Makes all waits fail.
  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, mail] : mail_) mail->abort(reason);
  }

 private:
  std::shared_ptr<Links> links_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Mail>> mail_;
};

}  // namespace convoy::parallel
