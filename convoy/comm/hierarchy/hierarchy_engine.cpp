#include "convoy/comm/hierarchy/hierarchy_engine.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <numeric>

#include "convoy/comm/gloo/gloo_engine.h"
#include "convoy/comm/hierarchy/all_gather_store.h"
#include "convoy/comm/shm/shm_engine.h"
#include "convoy/comm/staged_engine.h"
#include "convoy/comm/ticket_work.h"
#include "convoy/shm/worker.h"

namespace convoy::comm {

namespace {

/// Groups of the two levels, within hosts and between them.
struct Levels {
  std::shared_ptr<Engine> world;  ///< all ranks, over the network
  Group host;                     ///< the ranks of this host
  Group leaders;                  ///< the first rank of each host, for those
  std::vector<int> host_of_rank;
  std::vector<int> local_rank;
  int own_host;
  int rank;
};

class HierarchyEngine : public Engine {
 public:
  explicit HierarchyEngine(Levels levels) : levels_(std::move(levels)) {}

  const char* name() const override { return "shm+gloo"; }
  bool sends_when_asked() const override { return levels_.world->sends_when_asked(); }

  std::shared_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op, const Call& call) override {
    return start([this, tensor, op, label = call.label] { reduce(tensor, op, label); });
  }

  std::shared_ptr<Work> broadcast(at::Tensor tensor, int root, const Call& call) override {
    const int host = levels_.host_of_rank[static_cast<size_t>(root)];
    const int local = levels_.local_rank[static_cast<size_t>(root)];
    return start([this, tensor, root, host, local, label = call.label] {
      const bool here = host == levels_.own_host;
      if (here) levels_.host.broadcast(tensor, local, label);
      if (is_leader()) levels_.leaders.broadcast(tensor, host, label + ", between hosts");
      if (!here) levels_.host.broadcast(tensor, 0, label);
    });
  }

  std::shared_ptr<Work> reduce_scatter(at::Tensor out, at::Tensor in, const Counts& counts,
                                       ReduceOp op, const Call& call) override {
    return start([this, out, in, counts, op, label = call.label] {
      const auto sums = sums_of_host(in, op, label);
      const auto parts = is_leader() ? parts_between_hosts(sums, counts, op, label) : sums;
      Counts from_leader(host_size(), 0), to_ranks(host_size(), 0);
      from_leader[0] = out.numel();
      for (size_t r = 0; is_leader() && r < counts.size(); ++r) {
        if (levels_.host_of_rank[r] != levels_.own_host) continue;
        to_ranks[static_cast<size_t>(levels_.local_rank[r])] = counts[r];
      }
      levels_.host.all_to_all(out, parts, label, from_leader, to_ranks);
    });
  }
  std::shared_ptr<Work> all_gather(at::Tensor out, at::Tensor in, const Counts& counts,
                                   const Call& call) override {
    if (!in_order()) return levels_.world->all_gather(out, in, counts, call);
    return start([this, out, in, counts, label = call.label] {
      const auto first = rank() - levels_.host.rank(), size = levels_.host.size();
      const int64_t begin = sum(counts, 0, first), length = sum(counts, first, first + size);
      auto here = out.narrow(0, begin, length);
      const Counts of_host(counts.begin() + first, counts.begin() + first + size);
      levels_.host.all_gather(here, in, label, of_host);
      if (is_leader()) {
        Counts of_hosts(static_cast<size_t>(levels_.leaders.size()), 0);
        for (size_t r = 0; r < counts.size(); ++r) {
          of_hosts[static_cast<size_t>(levels_.host_of_rank[r])] += counts[r];
        }
        levels_.leaders.all_gather(out, here, label + ", between hosts", of_hosts);
      }
      levels_.host.broadcast(out, 0, label);
    });
  }
  std::shared_ptr<Work> all_to_all(at::Tensor out, const Counts& receive, at::Tensor in,
                                   const Counts& send, const Call& call) override {
    return levels_.world->all_to_all(out, receive, in, send, call);
  }
  std::shared_ptr<Work> send(at::Tensor tensor, int to, const Call& call) override {
    return levels_.world->send(tensor, to, call);
  }
  std::shared_ptr<Work> receive(at::Tensor tensor, int from, const Call& call) override {
    return levels_.world->receive(tensor, from, call);
  }

  void abort(const std::string& reason) override {
    levels_.host.abort(reason);
    levels_.leaders.abort(reason);
    levels_.world->abort(reason);
  }

 private:
  bool is_leader() const { return levels_.host.rank() == 0; }
  int rank() const { return levels_.rank; }
  /// Whether the ranks of each host are consecutive, in the order of the hosts.
  bool in_order() const {
    return std::is_sorted(levels_.host_of_rank.begin(), levels_.host_of_rank.end());
  }
  static int64_t sum(const Counts& counts, int begin, int end) {
    return std::accumulate(counts.begin() + begin, counts.begin() + end, int64_t{0});
  }

  size_t host_size() const { return static_cast<size_t>(levels_.host.size()); }

  /// Sums over this host's ranks, in the order of their all-reduce, on the leader; undefined on the
  /// others. Each rank adds a part.
  at::Tensor sums_of_host(const at::Tensor& in, ReduceOp op, const std::string& label) {
    const int64_t size = levels_.host.size(), length = in.numel();
    if (size == 1) return in.clone();
    Counts cut, to_leader(host_size(), 0);
    for (int64_t r = 0; r < size; ++r) cut.push_back(length * (r + 1) / size - length * r / size);
    auto part = at::empty({cut[static_cast<size_t>(levels_.host.rank())]}, in.options());
    levels_.host.reduce_scatter(part, in, op, label, cut);
    to_leader[0] = part.numel();
    auto all = at::empty({is_leader() ? length : 0}, in.options());
    levels_.host.all_to_all(all, part, label, is_leader() ? cut : Counts(host_size(), 0),
                            to_leader);
    return all;
  }

  /// Parts that this host's ranks get of the sums over all hosts, with the bits of all_reduce. Two
  /// leaders send only each other's parts, as the order of two summands does not matter. With more
  /// leaders Gloo's order depends on the place in the whole tensor, so it reduces all of it.
  at::Tensor parts_between_hosts(const at::Tensor& sums, const Counts& counts, ReduceOp op,
                                 const std::string& label) {
    const auto& leaders = levels_.leaders;
    const auto between = label + ", between hosts";
    if (leaders.size() != 2) {
      leaders.all_reduce(sums, op, between);
      return parts_of(levels_.own_host, sums, counts);
    }
    const int other = 1 - leaders.rank();
    auto mine = parts_of(leaders.rank(), sums, counts), theirs = parts_of(other, sums, counts);
    auto received = at::empty_like(mine);
    Group::Handle sending, receiving;
    if (mine.numel() > 0) receiving = leaders.start_receive(received, other, between);
    if (theirs.numel() > 0) sending = leaders.start_send(theirs, other, between);
    receiving.wait();
    sending.wait();
    return op == ReduceOp::Max ? at::maximum(mine, received) : mine.add_(received);
  }

  /// Parts of a host's ranks, concatenated.
  at::Tensor parts_of(int host, const at::Tensor& all, const Counts& counts) const {
    std::vector<at::Tensor> parts;
    int64_t begin = 0;
    for (size_t r = 0; r < counts.size(); ++r) {
      if (levels_.host_of_rank[r] == host) parts.push_back(all.narrow(0, begin, counts[r]));
      begin += counts[r];
    }
    return parts.size() == 1 ? parts[0] : at::cat(parts);
  }

  void reduce(const at::Tensor& tensor, ReduceOp op, const std::string& label) {
    levels_.host.all_reduce(tensor, op, label);
    if (is_leader()) levels_.leaders.all_reduce(tensor, op, label + ", between hosts");
    levels_.host.broadcast(tensor, 0, label);
  }

  std::shared_ptr<Work> start(shm::Worker::Work work) {
    return std::make_shared<TicketWork>(worker_.start([this, work = std::move(work)] {
      const at::NoGradGuard no_grad;
      try {
        work();
      } catch (const std::exception& error) {
        levels_.host.abort(error.what());  // the others of this host wait for the same network
        throw;
      }
    }));
  }

  Levels levels_;
  shm::Worker worker_;
};

c10::intrusive_ptr<c10d::Store> prefixed(const std::string& name,
                                         const c10::intrusive_ptr<c10d::Store>& store) {
  return c10::make_intrusive<c10d::PrefixStore>(name, store);
}

}  // namespace

Group make_hierarchy_group(const StoreAddress& point, const c10::intrusive_ptr<c10d::Store>& store,
                           const std::vector<int>& hosts) {
  Levels levels;
  levels.host_of_rank = hosts;
  levels.rank = point.rank;
  levels.own_host = hosts.at(static_cast<size_t>(point.rank));
  std::vector<int> num_ranks(hosts.size(), 0);
  for (const int host : hosts) levels.local_rank.push_back(num_ranks[static_cast<size_t>(host)]++);

  // The ranks of the smaller groups keep the names that they have in this one.
  StoreAddress local = point, between = point;
  local.names.clear();
  between.names.clear();
  for (int rank = 0; rank < point.size; ++rank) {
    const auto r = static_cast<size_t>(rank);
    if (hosts[r] == levels.own_host) local.names.push_back(point.name(rank));
    if (levels.local_rank[r] == 0) between.names.push_back(point.name(rank));
  }
  // Messages go over it, each between two ranks only, and Gloo connects all of a group at once: it
  // cannot be opened by the first that needs it. So it can also tell where the others are.
  levels.world = make_gloo_engine(point, prefixed("world", store));
  const auto gathered = [&](const char* label, AllGatherStore::Begins begins) {
    return c10::make_intrusive<AllGatherStore>(Group(point.rank, point.size, levels.world), label,
                                               begins);
  };
  local.rank = levels.local_rank[static_cast<size_t>(point.rank)];
  local.size = num_ranks[static_cast<size_t>(levels.own_host)];
  // Ranks wait longer for their host's first rank than that one waits for the network: so it is the
  // one that reports a failure of the network.
  local.timeout += std::chrono::seconds(2);
  const auto on_host = gathered("gather keys on hosts", AllGatherStore::Begins::AtSet);
  if (local.size > 1) {
    levels.host = make_shm_group(local, prefixed(fmt::format("host-{}", levels.own_host), on_host));
  }
  on_host->gather();
  const auto of_leaders = gathered("gather keys between hosts", AllGatherStore::Begins::AtGet);
  if (local.rank == 0) {
    between.rank = levels.own_host;
    between.size = 1 + *std::max_element(hosts.begin(), hosts.end());
    levels.leaders = Group(between.rank, between.size, make_gloo_engine(between, of_leaders));
  }
  of_leaders->gather();
  auto engine = std::make_shared<HierarchyEngine>(std::move(levels));
  return Group(point.rank, point.size, make_staged_engine(std::move(engine), at::kCPU));
}

}  // namespace convoy::comm
