#include "convoy/planner/time/offload.h"

#include <algorithm>

namespace convoy::planner {

namespace {

using parallel::Kind;
using parallel::Place;

/// Kind of state that is offloaded, with its place.
struct Offloaded {
  Kind kind;
  Place place;
  double width;  ///< bytes of an element
};

/// Kinds that are offloaded. Masters of 16-bit weights belong to the optimizer's state; fp32
/// weights are their own masters.
std::vector<Offloaded> offloaded_of(const Parallelism& split, const StepFacts& facts) {
  const auto& to = split.offload;
  std::vector<Offloaded> out;
  const auto add = [&](Kind kind, Place place, int64_t width) {
    if (place != Place::Device) out.push_back({kind, place, static_cast<double>(width)});
  };
  add(Kind::Moments, to.optimizer, facts.state_bytes);
  if (facts.low_precision) add(Kind::Masters, to.optimizer, parallel::kMasterBytes);
  add(Kind::Gradients, to.gradients, parallel::kGradientBytes);
  add(Kind::Weights, to.parameters, parallel::weight_bytes(facts.low_precision));
  return out;
}

int ranks_of_host(const Cluster& cluster, int num_ranks) {
  return std::min(cluster.devices_per_host, num_ranks);
}

/// Transfer rate of a rank while its neighbours transfer, too. State on disk goes through the
/// host's memory.
double bytes_per_second(Place place, const Cluster& cluster, int num_ranks) {
  if (place == Place::Cpu) return cluster.host_bytes_per_second;
  return std::min(cluster.host_bytes_per_second,
                  cluster.disk_bytes_per_second / ranks_of_host(cluster, num_ranks));
}

}  // namespace

std::map<Kind, parallel::TransferTimes> transfer_times(const parallel::Layout& layout,
                                                       const Cluster& cluster,
                                                       const Parallelism& split,
                                                       const StepFacts& facts, int num_ranks) {
  std::map<Kind, parallel::TransferTimes> out;
  for (const auto& [kind, place, width] : offloaded_of(split, facts)) {
    const double rate = bytes_per_second(place, cluster, num_ranks);
    auto& times = out[kind];
    times.place = place;
    for (int64_t b = 0; b < layout.num_buckets(kind); ++b) {
      times.of_bucket.push_back(width * static_cast<double>(layout.kept(kind, b, 0).length()) /
                                rate);
    }
  }
  return out;
}

double least_transfer_seconds(double elements, const Cluster& cluster, const Parallelism& split,
                              const StepFacts& facts) {
  const auto num_ranks = static_cast<int>(split.num_ranks());
  constexpr double kBothWays = 2;
  std::map<Place, double> seconds;
  for (const auto& [kind, place, width] : offloaded_of(split, facts)) {
    seconds[place] += kBothWays * width * elements / bytes_per_second(place, cluster, num_ranks);
  }
  double most = 0;
  for (const auto& [place, takes] : seconds) most = std::max(most, takes);
  return most;
}

Excess beyond_hosts(const std::vector<const parallel::Layout*>& stages, const Cluster& cluster,
                    const Parallelism& split, const StepFacts& facts, int num_ranks) {
  Excess out;
  const auto offloaded = offloaded_of(split, facts);
  for (const auto place : {Place::Cpu, Place::Disk}) {
    const int64_t room = place == Place::Cpu ? cluster.host_memory_bytes : cluster.disk_bytes;
    if (room == 0) continue;
    std::vector<double> of_stage;
    for (const auto* layout : stages) {
      auto& bytes = of_stage.emplace_back();
      for (const auto& each : offloaded) {
        if (each.place != place) continue;
        bytes += each.width * static_cast<double>(layout->kept(each.kind));
      }
    }
    const int here = ranks_of_host(cluster, num_ranks);
    const int ranks_of_stage = num_ranks / static_cast<int>(stages.size());
    double most = 0, of_host = 0;
    for (int rank = 0; rank < num_ranks; ++rank) {
      if (rank % here == 0) of_host = 0;
      of_host += of_stage[static_cast<size_t>(rank / ranks_of_stage)];
      most = std::max(most, of_host);
    }
    const auto excess = static_cast<int64_t>(most) - room;
    if (excess > out.bytes) out = {place, excess};
  }
  return out;
}

}  // namespace convoy::planner
