#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "convoy/planner/time/cluster.h"

namespace convoy::planner {

enum class Collective { AllReduce, ReduceScatter, AllGather };

/// Seconds of a collective: alone, and of each of many that follow each other, where the next
/// begins on some ranks before it has ended on others.
struct PredictedCollective {
  double alone = 0, in_row = 0;
};

/// A collective that a rank begins.
struct Begun {
  double bytes, at;
};

/// Sums and gathers of groups that lie on several hosts, message by message: inside a host each
/// rank sends to its neighbours what they keep, ranks that keep the same part on other hosts send
/// it there, and so back. A rank whose part has come goes on while the link of its host still
/// sends the others'.
class HostSums {
 public:
  /// Prepares all groups of a mesh along some axes, which run at once.
  HostSums(const Cluster& cluster, const parallel::Mesh& mesh, parallel::AxisSet axes);

  /// Time until the last rank has the result.
  PredictedCollective time(Collective of, double bytes) const;
  /// Time at which the last collective ends of those that ranks begin, each once the one before has
  /// ended.
  double ended(Collective of, const std::vector<std::vector<Begun>>& by_rank) const;
  /// Time that each of many collectives takes beyond the computing of the slowest rank of its
  /// group, where a rank of speed 1 computes for `computing` seconds before each.
  double waits(Collective of, double bytes, double computing,
               const std::vector<double>& speeds) const;

 private:
  /// Messages of a rank at the beginning of a phase, once all messages have come that the phase
  /// before waits for.
  struct Phase {
    struct Message {
      size_t to;
      double part;  ///< of all bytes
      bool inside;
    };
    std::vector<Message> sends;
    int receives = 0;
  };

  /// Collectives that follow each other on a rank: the bytes of each, and its earliest begin: at
  /// that time, or so long after the end of the one before.
  struct Sequence {
    std::vector<Begun> all;
    double computing = 0;
  };

  /// [group] Time at which the last of its ranks has ended each collective.
  std::vector<std::vector<double>> play(Collective of, const std::vector<Sequence>& ranks) const;
  /// [group] Time at which the last of its ranks has ended each of `number` equal collectives.
  std::vector<std::vector<double>> play(Collective of, double bytes, int number,
                                        const std::vector<double>& computing) const;

  Link inside_, between_;
  std::vector<int> host_of_, group_of_;  // [rank]
  size_t num_groups_ = 0;
  std::vector<std::vector<Phase>> phases_;  // [of the four][rank]
  // Cache of simulated times.
  mutable std::map<std::pair<Collective, double>, PredictedCollective> times_;
  mutable std::map<std::tuple<Collective, double, double>, double> waits_;
};

}  // namespace convoy::planner
