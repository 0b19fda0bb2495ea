#include "convoy/planner/time/host_sums.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>

namespace convoy::planner {

namespace {

/// Phases of an all-reduce; a reduce-scatter and an all-gather have half of them each.
enum PhaseNumber : size_t { kSwapIn, kScatter, kGather, kSwapOut, kNumPhases };

std::pair<size_t, size_t> phases_of(Collective of) {
  switch (of) {
    case Collective::ReduceScatter:
      return {kSwapIn, kGather};
    case Collective::AllGather:
      return {kGather, kNumPhases};
    default:
      return {kSwapIn, kNumPhases};
  }
}

/// Ranks of a group by host, and the rank of each host that keeps a part.
class GroupOfHosts {
 public:
  GroupOfHosts(const Cluster& cluster, const std::vector<int>& ranks)
      : cluster_(cluster), ranks_(ranks) {
    for (const int rank : ranks) hosts_[cluster.host_of(rank)].push_back(rank);
  }

  const std::map<int, std::vector<int>>& hosts() const { return hosts_; }
  const std::vector<int>& here(int rank) const { return hosts_.at(cluster_.host_of(rank)); }
  /// Returns the rank of a host that has its part of what `rank` gets or gives.
  int keeper(int host, int rank) const {
    if (cluster_.host_of(rank) == host) return rank;
    const auto &there = hosts_.at(host), &its = here(rank);
    const auto place = std::find(its.begin(), its.end(), rank) - its.begin();
    return there[static_cast<size_t>(place) % there.size()];
  }
  std::vector<int> kept_by(int rank) const {
    std::vector<int> out;
    for (const int other : ranks_) {
      if (keeper(cluster_.host_of(rank), other) == rank) out.push_back(other);
    }
    return out;
  }
  double share(int rank) const {
    return static_cast<double>(kept_by(rank).size()) / static_cast<double>(ranks_.size());
  }
  /// Other ranks of the same host, cyclically from the next one on.
  std::vector<int> mates(int rank) const {
    auto out = here(rank);
    std::rotate(out.begin(), std::find(out.begin(), out.end(), rank), out.end());
    out.erase(out.begin());
    return out;
  }

 private:
  const Cluster& cluster_;
  const std::vector<int>& ranks_;
  std::map<int, std::vector<int>> hosts_;
};

}  // namespace

HostSums::HostSums(const Cluster& cluster, const parallel::Mesh& mesh, parallel::AxisSet axes)
    : inside_(cluster.inside), between_(cluster.between) {
  const auto num_ranks = static_cast<size_t>(mesh.num_ranks());
  group_of_.resize(num_ranks);
  phases_.assign(kNumPhases, std::vector<Phase>(num_ranks));
  const auto send = [&](PhaseNumber phase, int from, int to, double part) {
    const bool inside = cluster.host_of(from) == cluster.host_of(to);
    phases_[phase][static_cast<size_t>(from)].sends.push_back(
        {static_cast<size_t>(to), part, inside});
    ++phases_[phase][static_cast<size_t>(to)].receives;
  };
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    host_of_.push_back(cluster.host_of(rank));
    const auto ranks = mesh.of(rank).ranks_along(axes);
    if (ranks.front() == rank) {
      for (const int other : ranks) {
        group_of_[static_cast<size_t>(other)] = static_cast<int>(num_groups_);
      }
      ++num_groups_;
    }
    const GroupOfHosts group(cluster, ranks);
    const double own = 1.0 / static_cast<double>(ranks.size());
    for (const int mate : group.mates(rank)) {
      send(kSwapIn, rank, mate, group.share(mate));
      send(kSwapOut, rank, mate, group.share(rank));
    }
    for (const int other : group.kept_by(rank)) {
      if (other != rank) send(kScatter, rank, other, own);
    }
    for (const auto& [host, there] : group.hosts()) {
      const int keeper = group.keeper(host, rank);
      if (keeper != rank) send(kGather, rank, keeper, own);
    }
  }
}

std::vector<std::vector<double>> HostSums::play(Collective of,
                                                const std::vector<Sequence>& sequences) const {
  const auto [first, end] = phases_of(of);
  const size_t each = end - first, num_ranks = host_of_.size();
  /// Number of messages that have arrived for a phase, and the time of the last.
  struct Come {
    int number = 0;
    double last = 0;
  };
  struct Rank {
    size_t step = 0, steps = 0;  // phases begun, of all
    double time = 0, free = 0;
    std::vector<Come> come;
  };
  std::vector<Rank> ranks(num_ranks);
  std::map<int, double> host_free;
  std::vector<std::vector<double>> out(num_groups_);
  using Event = std::pair<double, size_t>;  // when a rank begins its next phase
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  const auto phase_at = [&, first = first](size_t step) -> const std::vector<Phase>& {
    return phases_[first + step % each];
  };
  const auto begin = [&](size_t r, size_t number) {
    auto& it = ranks[r];
    it.time = std::max(it.time + sequences[r].computing, sequences[r].all[number].at);
  };
  const auto go_on = [&](size_t r) {  // once all has come that the last phase waits for
    auto& it = ranks[r];
    const auto& come = it.come[it.step - 1];
    if (come.number < phase_at(it.step - 1)[r].receives) return;
    it.time = std::max(it.time, come.last);
    const size_t ended = it.step / each;
    if (it.step % each == 0) {
      auto& end_of = out[static_cast<size_t>(group_of_[r])][ended - 1];
      end_of = std::max(end_of, it.time);
    }
    if (it.step == it.steps) return;
    if (it.step % each == 0) begin(r, ended);
    events.emplace(it.time, r);
  };
  for (size_t r = 0; r < num_ranks; ++r) {
    const size_t number = sequences[r].all.size();
    out[static_cast<size_t>(group_of_[r])].resize(number);
    ranks[r].come.resize(ranks[r].steps = each * number);
    if (number == 0) continue;
    begin(r, 0);
    events.emplace(ranks[r].time, r);
  }
  while (!events.empty()) {
    const auto [now, r] = events.top();
    events.pop();
    auto& it = ranks[r];
    const size_t step = it.step++;
    const double bytes = sequences[r].all[step / each].bytes;
    std::vector<size_t> reached{r};
    for (const auto& [to, part, inside] : phase_at(step)[r].sends) {
      const auto& link = inside ? inside_ : between_;
      auto& free = inside ? it.free : host_free[host_of_[r]];
      free = std::max(free, now) + part * bytes / link.bytes_per_second;
      auto& come = ranks[to].come[step];
      ++come.number;
      come.last = std::max(come.last, free + link.seconds);
      reached.push_back(to);
    }
    for (const size_t other : reached) {
      if (ranks[other].step == step + 1) go_on(other);
    }
  }
  return out;
}

std::vector<std::vector<double>> HostSums::play(Collective of, double bytes, int number,
                                                const std::vector<double>& computing) const {
  std::vector<Sequence> ranks;
  for (const double takes : computing) {
    ranks.push_back({std::vector<Begun>(static_cast<size_t>(number), {bytes, 0}), takes});
  }
  return play(of, ranks);
}

double HostSums::ended(Collective of, const std::vector<std::vector<Begun>>& by_rank) const {
  std::vector<Sequence> ranks;
  for (const auto& all : by_rank) ranks.push_back({all});
  double out = 0;
  for (const auto& ends : play(of, ranks)) {
    for (const double end : ends) out = std::max(out, end);
  }
  return out;
}

namespace {

/// Mean time of the last two of several collectives in sequence, as ranks may take turns.
double period(const std::vector<double>& ends) {
  return (ends.back() - ends[ends.size() - 3]) / 2;
}
constexpr int kInRow = 7;

}  // namespace

PredictedCollective HostSums::time(Collective of, double bytes) const {
  const auto [known, fresh] = times_.try_emplace({of, bytes});
  auto& out = known->second;
  if (!fresh) return out;
  for (const auto& ends : play(of, bytes, kInRow, std::vector<double>(host_of_.size(), 0))) {
    out.alone = std::max(out.alone, ends.front());
    out.in_row = std::max(out.in_row, period(ends));
  }
  return out;
}

double HostSums::waits(Collective of, double bytes, double computing,
                       const std::vector<double>& speeds) const {
  const auto [known, fresh] = waits_.try_emplace({of, bytes, computing});
  if (!fresh) return known->second;
  std::vector<double> takes, slowest(num_groups_, 0);
  for (size_t r = 0; r < host_of_.size(); ++r) {
    takes.push_back(computing / speeds[r]);
    auto& most = slowest[static_cast<size_t>(group_of_[r])];
    most = std::max(most, takes.back());
  }
  const auto ends = play(of, bytes, kInRow, takes);
  auto& out = known->second;
  for (size_t g = 0; g < num_groups_; ++g) out = std::max(out, period(ends[g]) - slowest[g]);
  return out;
}

}  // namespace convoy::planner
