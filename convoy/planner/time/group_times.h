#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "convoy/planner/time/host_sums.h"

namespace convoy::planner {

/// Spread of the groups of a mesh along some axes over hosts.
struct OverHosts {
  int num_hosts = 1, per_host = 1;  ///< of the group that spans most hosts
  double leaves_host = 0;  ///< of a group's bytes, for all groups of the host that sends most
};

/// Results for the groups of one cluster's ranks, each computed once. The ranks have the same
/// speeds in all requests.
class KnownGroups {
 public:
  const OverHosts& over_hosts(const Cluster& cluster, const parallel::Mesh& mesh,
                              parallel::AxisSet axes);
  std::shared_ptr<const HostSums> sums(const Cluster& cluster, const parallel::Mesh& mesh,
                                       parallel::AxisSet axes);
  /// fastest_link_of_stages().
  const Link& fastest_link(const Cluster& cluster, const parallel::Mesh& mesh);

 private:
  using Key = std::pair<int, parallel::Strides>;  // ranks, and how a group lies among them
  std::map<Key, OverHosts> over_hosts_;
  std::map<Key, std::shared_ptr<const HostSums>> sums_;
  std::map<std::pair<int, int>, Link> links_;  // by ranks and stages
};

/// Times of the collectives of a mesh's groups along some axes, in seconds: inside a host each rank
/// sends what is not its own, then each host one copy to the others, as convoy's engines do
/// (comm/hierarchy) and NCCL's rings. Groups whose ranks share a host share its link to the others.
/// Where phases overlap and ranks are few they are played message by message, else they come one
/// after the other.
class GroupTimes {
 public:
  /// `known`: results of earlier requests; null: none.
  GroupTimes(const Cluster& cluster, const parallel::Mesh& mesh, parallel::AxisSet axes,
             KnownGroups* known = nullptr);

  int size() const { return size_; }
  bool crosses_hosts() const { return over_.num_hosts > 1; }
  double all_reduce(double bytes) const { return time(Collective::AllReduce, bytes).alone; }
  /// `bytes` of the whole, as of what is scattered.
  PredictedCollective time(Collective of, double bytes) const;
  /// Time in which each rank sends as much to each, `bytes` in all, to itself among them.
  double all_to_all(double bytes) const;
  /// Time that a sum takes beyond the computing of the slowest rank, where ranks compute for
  /// `computing` seconds before each of many sums; `speeds`: by rank.
  double waits(double bytes, double computing, const std::vector<double>& speeds) const;
  /// Whether `waits` reads speeds.
  bool plays() const { return played_ != nullptr; }
  /// Whether ended() can be called.
  bool plays_hosts() const { return played_ && over_.num_hosts > 1; }
  /// Time at which the last of the collectives ends that ranks begin at different times, by rank.
  double ended(Collective of, const std::vector<std::vector<Begun>>& by_rank) const;
  /// Lower bound: the time that the links need for each of many in a row.
  double least(Collective of, double bytes) const;
  /// Time of a message to the next rank of the group while all send theirs.
  double message(double bytes) const {
    return size_ == 1 ? 0 : (over_.num_hosts > 1 ? between_ : inside_).time_of(bytes);
  }

 private:
  Link inside_, between_;
  int size_ = 1;
  OverHosts over_;
  std::shared_ptr<const HostSums> played_;
};

/// Link for a message from one stage of a pipeline to another, where it takes longest.
Link link_of_stages(const Cluster& cluster, const parallel::Mesh& mesh, int from, int to);

/// Returns the fastest link between neighbouring stages.
Link fastest_link_of_stages(const Cluster& cluster, const parallel::Mesh& mesh);

}  // namespace convoy::planner
