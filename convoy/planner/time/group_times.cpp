#include "convoy/planner/time/group_times.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace convoy::planner {

namespace {

OverHosts lie_over_hosts(const Cluster& cluster, const parallel::Mesh& mesh,
                         parallel::AxisSet axes) {
  OverHosts out;
  const int size = mesh.degree(axes), per_host = cluster.devices_per_host;
  const auto strides = mesh.strides_along(axes);
  // Groups lie in blocks of so many ranks.
  const int block = strides.empty() ? 1 : strides.back().first * strides.back().second;
  const bool alike = block % per_host == 0 || per_host % block == 0;
  // Hosts repeat from the next one on that begins with a block.
  const int64_t repeats = std::lcm<int64_t>(block, per_host);
  const int64_t different = alike ? 1 : std::min<int64_t>(repeats, mesh.num_ranks());
  std::map<int, double> leaves;  // [host]
  for (int rank = 0; rank < different; ++rank) {
    const auto of = mesh.of(rank);
    if (of.place(axes) != 0) continue;  // its group was met
    std::map<int, int> on_host;
    for (const int other : of.ranks_along(axes)) ++on_host[cluster.host_of(other)];
    out.num_hosts = std::max(out.num_hosts, static_cast<int>(on_host.size()));
    for (const auto& [host, ranks] : on_host) {
      leaves[host] += 1 - static_cast<double>(ranks) / size;
      out.leaves_host = std::max(out.leaves_host, leaves[host]);
    }
  }
  out.per_host = (size + out.num_hosts - 1) / out.num_hosts;
  if (alike) out.leaves_host *= std::min(per_host, mesh.num_ranks()) / out.per_host;
  return out;
}

}  // namespace

const OverHosts& KnownGroups::over_hosts(const Cluster& cluster, const parallel::Mesh& mesh,
                                         parallel::AxisSet axes) {
  const auto [found, fresh] = over_hosts_.try_emplace({mesh.num_ranks(), mesh.strides_along(axes)});
  if (fresh) found->second = lie_over_hosts(cluster, mesh, axes);
  return found->second;
}

std::shared_ptr<const HostSums> KnownGroups::sums(const Cluster& cluster,
                                                  const parallel::Mesh& mesh,
                                                  parallel::AxisSet axes) {
  auto& out = sums_[{mesh.num_ranks(), mesh.strides_along(axes)}];
  if (!out) out = std::make_shared<const HostSums>(cluster, mesh, axes);
  return out;
}

const Link& KnownGroups::fastest_link(const Cluster& cluster, const parallel::Mesh& mesh) {
  const auto [found, fresh] =
      links_.try_emplace({mesh.num_ranks(), mesh.degree(parallel::Axis::Pipeline)});
  if (fresh) found->second = fastest_link_of_stages(cluster, mesh);
  return found->second;
}

GroupTimes::GroupTimes(const Cluster& cluster, const parallel::Mesh& mesh, parallel::AxisSet axes,
                       KnownGroups* known)
    : inside_(cluster.inside), between_(cluster.between), size_(mesh.degree(axes)) {
  if (size_ == 1) return;
  over_ = known == nullptr ? lie_over_hosts(cluster, mesh, axes)
                           : known->over_hosts(cluster, mesh, axes);
  constexpr int kMostPlayed = 16;  // ranks
  // Equal ranks on one host are all ready at the same time.
  const bool differs = over_.num_hosts > 1 || !cluster.each.empty();
  if (!differs || !cluster.phases_overlap || mesh.num_ranks() > kMostPlayed) return;
  played_ = known == nullptr ? std::make_shared<const HostSums>(cluster, mesh, axes)
                             : known->sums(cluster, mesh, axes);
}

namespace {

double passes_of(Collective of) {
  return of == Collective::AllReduce ? 2 : 1;
}

}  // namespace

PredictedCollective GroupTimes::time(Collective of, double bytes) const {
  // Several ranks share a link to other hosts.
  const bool is_shared = over_.leaves_host * size_ > size_ - over_.per_host || over_.per_host > 1;
  if (played_ && over_.num_hosts > 1 && is_shared) {
    auto out = played_->time(of, bytes);
    out.in_row = std::max(out.in_row, least(of, bytes));
    return out;
  }
  double out = 0;
  const double not_own = static_cast<double>(over_.per_host - 1) / over_.per_host;
  if (over_.per_host > 1) out += passes_of(of) * inside_.time_of(not_own * bytes);
  if (over_.num_hosts > 1) out += passes_of(of) * between_.time_of(over_.leaves_host * bytes);
  return {out, out};
}

double GroupTimes::all_to_all(double bytes) const {
  double out = 0;
  if (over_.per_host > 1) out += inside_.time_of(bytes * (over_.per_host - 1) / size_);
  // Each rank of the host has bytes of its own to send.
  if (over_.num_hosts > 1) out += between_.time_of(over_.per_host * over_.leaves_host * bytes);
  return out;
}

double GroupTimes::waits(double bytes, double computing, const std::vector<double>& speeds) const {
  if (played_) return played_->waits(Collective::AllReduce, bytes, computing, speeds);
  return all_reduce(bytes);
}

double GroupTimes::ended(Collective of, const std::vector<std::vector<Begun>>& by_rank) const {
  return played_->ended(of, by_rank);
}

double GroupTimes::least(Collective of, double bytes) const {
  if (!played_ || over_.num_hosts == 1) return time(of, bytes).alone;
  const double not_own = static_cast<double>(over_.per_host - 1) / over_.per_host;
  return passes_of(of) * bytes *
         std::max(not_own / inside_.bytes_per_second,
                  over_.leaves_host / between_.bytes_per_second);
}

Link link_of_stages(const Cluster& cluster, const parallel::Mesh& mesh, int from, int to) {
  const int ranks = mesh.num_ranks() / mesh.degree(parallel::Axis::Pipeline);
  const int first = from * ranks, per_host = cluster.devices_per_host;
  // Hosts from the second on are alike, except the last, which may have fewer ranks of the stage.
  const int different = std::min(ranks, 2 * per_host);
  int most = 0, leave = 0;  // so many of a host at once
  for (int rank = first; rank < first + different; ++rank) {
    if (rank % per_host == 0) leave = 0;
    if (cluster.host_of(rank) == cluster.host_of(rank + (to - from) * ranks)) continue;
    most = std::max(most, ++leave);
  }
  if (most == 0) return cluster.inside;
  auto out = cluster.between;
  out.bytes_per_second /= most;
  return out;
}

Link fastest_link_of_stages(const Cluster& cluster, const parallel::Mesh& mesh) {
  Link out{std::numeric_limits<double>::infinity(), 0};
  for (int stage = 1; stage < mesh.degree(parallel::Axis::Pipeline); ++stage) {
    for (const auto& link : {link_of_stages(cluster, mesh, stage - 1, stage),
                             link_of_stages(cluster, mesh, stage, stage - 1)}) {
      out.seconds = std::min(out.seconds, link.seconds);
      out.bytes_per_second = std::max(out.bytes_per_second, link.bytes_per_second);
    }
  }
  return out.bytes_per_second > 0 ? out : Link{};
}

}  // namespace convoy::planner
