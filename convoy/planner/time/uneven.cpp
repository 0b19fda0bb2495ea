#include "convoy/planner/time/uneven.h"

#include <algorithm>
#include <limits>
#include "convoy/parallel/zero/state_bytes.h"

namespace convoy::planner {

namespace {

using parallel::Axis;

/// Cumulative seconds and bytes of state of all blocks before each block.
struct Before {
  std::vector<double> seconds{0}, bytes{0};
};

Before before_blocks(const ModelCosts& numbers, const StepFacts& facts, const Parallelism& split) {
  const auto costs = numbers.blocks(share_of(split));
  const double each = parallel::state_bytes_of_parameter(split.mesh(), split, facts);
  const auto tensor = static_cast<int>(split.ranks.tensor);
  const parallel::TensorPlace place{tensor - 1, tensor, 0, split.mesh().degree(Axis::Expert)};
  Before out;
  for (size_t b = 0; b < costs.size(); ++b) {
    const auto& block = numbers.model.blocks[b];
    const double again = split.recompute && block.repeatable && b + 1 < costs.size() ? 2 : 1;
    out.seconds.push_back(out.seconds.back() + again * costs[b].forward_seconds +
                          costs[b].backward_seconds);
    out.bytes.push_back(out.bytes.back() + state_of_block(numbers.model, block.params, place, each,
                                                          facts.low_precision));
  }
  return out;
}

}  // namespace

double state_of_block(const parallel::ModelDecl& model, const std::vector<int64_t>& params,
                      const parallel::TensorPlace& place, double bytes_each, bool low_precision) {
  const auto frozen_bytes = static_cast<double>(parallel::weight_bytes(low_precision));
  double out = 0;
  for (const int64_t p : params) {
    const auto& param = model.params[static_cast<size_t>(p)];
    out += static_cast<double>(parallel::local_elements(param.shape, param.cut, place)) *
           (param.trained ? bytes_each : frozen_bytes);
  }
  return out;
}

std::vector<std::vector<double>> speeds_of(const Cluster& cluster, const parallel::Mesh& mesh,
                                           bool low_precision) {
  const int stages = mesh.degree(Axis::Pipeline), data = mesh.degree(parallel::kRows);
  const int of_rows = mesh.degree(Axis::Context | Axis::Tensor);
  std::vector<std::vector<double>> out;
  for (int d = 0; d < data; ++d) {
    auto& speeds = out.emplace_back(static_cast<size_t>(stages), 1);
    if (cluster.each.empty()) continue;
    for (int s = 0; s < stages; ++s) {
      auto& speed = speeds[static_cast<size_t>(s)];
      const int first = (s * data + d) * of_rows;
      speed = cluster.speed_of(first, low_precision);
      for (int t = 1; t < of_rows; ++t) {
        speed = std::min(speed, cluster.speed_of(first + t, low_precision));
      }
    }
  }
  return out;
}

int64_t room_of_stage(const Cluster& cluster, const parallel::Mesh& mesh, int stage) {
  int64_t out = cluster.room();
  if (cluster.each.empty()) return out;
  const int number = mesh.num_ranks() / mesh.degree(Axis::Pipeline);
  out = cluster.room_of(stage * number);
  for (int rank = stage * number; rank < (stage + 1) * number; ++rank) {
    out = std::min(out, cluster.room_of(rank));
  }
  return out;
}

std::vector<int64_t> cut_for_speeds(const ModelCosts& numbers, const Cluster& cluster,
                                    const StepFacts& facts, const Parallelism& split) {
  const auto stages = static_cast<size_t>(split.ranks.pipeline);
  std::vector<double> slowest(stages, std::numeric_limits<double>::infinity()), room;
  const auto mesh = split.mesh();
  for (const auto& speeds : speeds_of(cluster, mesh, facts.low_precision)) {
    for (size_t s = 0; s < stages; ++s) slowest[s] = std::min(slowest[s], speeds[s]);
  }
  for (size_t s = 0; s < stages; ++s) {
    room.push_back(static_cast<double>(room_of_stage(cluster, mesh, static_cast<int>(s))));
  }
  const bool alike = slowest == std::vector<double>(stages, slowest.front()) &&
                     room == std::vector<double>(stages, room.front());
  const auto before = before_blocks(numbers, facts, split);
  const size_t blocks = before.seconds.size() - 1;
  if (alike || blocks < stages) return {};
  // [stage][block] The least that the slowest of the stages up to this one takes, which ends before
  // the block, and where this one begins then.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> least(stages, std::vector<double>(blocks + 1, kNever));
  std::vector<std::vector<size_t>> begins(stages, std::vector<size_t>(blocks + 1, 0));
  for (size_t s = 0; s < stages; ++s) {
    for (size_t end = s + 1; end <= blocks; ++end) {
      for (size_t begin = s; begin < end; ++begin) {
        if (s == 0 && begin > 0) break;
        if (before.bytes[end] - before.bytes[begin] > room[s]) continue;
        const double own = (before.seconds[end] - before.seconds[begin]) / slowest[s];
        const double all = std::max(s == 0 ? 0 : least[s - 1][begin], own);
        if (all < least[s][end]) {
          least[s][end] = all;
          begins[s][end] = begin;
        }
      }
    }
  }
  if (least.back()[blocks] == kNever) return {};
  std::vector<int64_t> out;
  for (size_t s = stages - 1, end = blocks; s > 0; --s) {
    end = begins[s][end];
    out.insert(out.begin(), static_cast<int64_t>(end));
  }
  return out;
}

}  // namespace convoy::planner
