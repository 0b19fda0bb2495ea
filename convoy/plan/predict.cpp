#include "convoy/plan/predict.h"

#include <algorithm>
#include <numeric>

namespace convoy::plan {

namespace {

using schedule::Axis;
using schedule::Layout;

/// With the sums inside of layers, which computing waits for.
schedule::Costs costs_of(const std::vector<BlockCost>& blocks, const GroupTimes& tensor,
                         const Link& to_next) {
  schedule::Costs out;
  const auto sums = [&](int64_t number, int64_t bytes) {
    if (tensor.size() == 1 || number == 0) return 0.0;
    const auto each = static_cast<double>(bytes) / static_cast<double>(number);
    return static_cast<double>(number) * tensor.all_reduce(each);
  };
  for (const auto& block : blocks) {
    out.forward.push_back(block.forward_seconds +
                          sums(block.forward_sums, block.forward_sum_bytes));
    out.backward.push_back(block.backward_seconds +
                           sums(block.backward_sums, block.backward_sum_bytes));
    out.weight.push_back(block.weight_seconds);
    out.kept.push_back(static_cast<double>(block.kept_bytes));
    out.put_off.push_back(static_cast<double>(block.put_off_bytes));
    out.inputs.push_back(static_cast<double>(block.returned_bytes));
    out.send.push_back(to_next.time_of(static_cast<double>(block.sent_bytes)));
    out.send_grad.push_back(to_next.time_of(static_cast<double>(block.grad_bytes)));
  }
  return out;
}

schedule::StepTimes times_of(const Layout& layout, const Numbers& numbers, const Cluster& cluster,
                             const schedule::RunOptions& options, const schedule::Mesh& mesh) {
  const GroupTimes rows(cluster, mesh, schedule::kGradients),
      world(cluster, mesh, schedule::kWorld), state(cluster, mesh, schedule::kState),
      replicas(cluster, mesh, Axis::Replicate);
  const double width = layout.options().low_precision ? 2 : 4;
  schedule::StepTimes out;
  for (int64_t b = 0; b < layout.num_buckets(); ++b) {
    const auto elements =
        static_cast<double>(layout.buckets()[static_cast<size_t>(b)].all.length());
    const auto updated = static_cast<double>(layout.updated(b, 0).length());
    out.reduce.push_back(rows.all_reduce(4 * elements));
    // A part of the sum of a state replica, then of this part with the other replicas.
    out.reduce_scatter.push_back(state.reduce_scatter(4 * elements) +
                                 replicas.all_reduce(4 * elements / state.size()));
    out.gather.push_back(state.all_gather(width * elements));
    out.update.push_back(updated * numbers.update_seconds);
    if (options.offload.optimizer == schedule::Place::Device) continue;
    // Masters of 16-bit weights go with it.
    const double bytes =
        updated * static_cast<double>(options.state_bytes + (options.low_precision ? 4 : 0));
    const double rate = options.offload.optimizer == schedule::Place::Disk
                            ? cluster.disk_bytes_per_second / cluster.devices_per_host
                            : cluster.host_bytes_per_second;
    out.fetch.push_back(bytes / rate);
    out.store.push_back(bytes / rate);
  }
  out.totals = world.all_reduce(64);
  out.beside = cluster.beside;
  return out;
}

double sum_of(const std::vector<schedule::Span>& spans) {
  return std::accumulate(spans.begin(), spans.end(), 0.0,
                         [](double sum, const auto& span) { return sum + span.end - span.begin; });
}

}  // namespace

Fit fit_of(int64_t bytes, int64_t limit, double spread) {
  if (static_cast<double>(bytes) * (1 + spread) <= static_cast<double>(limit)) return Fit::Yes;
  return bytes <= limit ? Fit::AtRisk : Fit::No;
}

Fit fit_of(const Numbers& numbers, const Cluster& cluster, int64_t bytes) {
  return fit_of(bytes, cluster.device.memory_bytes - cluster.reserved_bytes, numbers.memory_spread);
}

Prediction predict(const Numbers& numbers, const Cluster& cluster, const schedule::RunOptions& base,
                   const Split& split) {
  const auto blocks = numbers.blocks(split.rows, split.tensor);
  const auto options = split.options(base);
  const auto mesh = split.mesh();
  const auto plan = schedule::plan_run(numbers.model, mesh, options, blocks, /*proves=*/false);
  const GroupTimes tensor(cluster, mesh, Axis::Tensor);
  const auto costs = costs_of(blocks, tensor, link_to_next_stage(cluster, mesh));
  std::vector<schedule::RankProgram> ranks;
  std::vector<schedule::StepTimes> times;
  std::vector<int> pipeline(plan.stages.size());
  std::iota(pipeline.begin(), pipeline.end(), 0);
  for (const auto& stage : plan.stages) {
    ranks.push_back({stage.step, stage.layout, pipeline});
    times.push_back(times_of(stage.layout, numbers, cluster, options, mesh));
  }
  constexpr int kSteps = 2;  // the second one finds what the first left under way
  const auto timeline = schedule::simulate(ranks, costs, times, kSteps);

  Prediction out;
  out.seconds = timeline.length;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const auto& memory = plan.stages[s].memory;
    if (s == 0 || memory.sum() > out.memory.sum()) {
      out.memory = memory;
      out.stage = static_cast<int>(s);
    }
    const double computing = sum_of(timeline.ranks[s]);
    if (computing <= out.computing) continue;
    out.computing = computing;
    out.held_up = timeline.held_up[s];
    out.updates = timeline.updates[s];
  }
  out.bubble = std::max(0.0, out.seconds - out.computing - out.held_up - out.updates);
  out.fit = fit_of(numbers, cluster, out.memory.sum());
  out.short_bytes =
      std::max<int64_t>(0, out.memory.sum() + cluster.reserved_bytes - cluster.device.memory_bytes);
  return out;
}

namespace {

/// Of the tensor rank that has most.
double num_elements(const schedule::ModelDecl& model, int tensor) {
  const schedule::TensorPlace place{tensor - 1, tensor};
  double out = 0;
  for (const auto& param : model.params) {
    if (!param.trained) continue;
    out += static_cast<double>(
        schedule::num_elements(schedule::local_shape(param.shape, param.cut, place)));
  }
  return out;
}

}  // namespace

double least_seconds(const Numbers& numbers, const Cluster& cluster, const Split& split) {
  const GroupTimes tensor(cluster, split.mesh(), Axis::Tensor);
  auto costs = costs_of(numbers.blocks(split.rows, split.tensor), tensor, {});
  double out = 0;
  for (size_t b = 0; b < costs.forward.size(); ++b) {
    const bool again =
        split.recompute && b + 1 < costs.forward.size() && numbers.model.blocks[b].repeatable;
    out += costs.forward[b] * (again ? 2 : 1) + costs.backward[b];
  }
  // Any blocks of all stages might be the ones that are recomputed.
  std::sort(costs.forward.begin(), costs.forward.end());
  const auto some =
      std::min(costs.forward.size(), static_cast<size_t>(split.recomputed * split.pipeline));
  out += std::accumulate(costs.forward.begin(),
                         costs.forward.begin() + static_cast<std::ptrdiff_t>(some), 0.0);
  const int64_t shard = split.shard > 0 ? split.shard : split.data;
  const auto updating = static_cast<double>(split.pipeline * (split.zero > 0 ? shard : 1));
  return out * static_cast<double>(split.micro_batches) / split.pipeline +
         num_elements(numbers.model, split.tensor) / updating * numbers.update_seconds;
}

int64_t least_bytes(const Numbers& numbers, const schedule::RunOptions& base, const Split& split) {
  const auto options = split.options(base);
  double out = num_elements(numbers.model, split.tensor) / split.pipeline *
               schedule::state_bytes_of_parameter(split.mesh(), options);
  for (const auto& block : numbers.blocks(split.rows, split.tensor)) {
    out += static_cast<double>(split.recompute || split.recomputed > 0 ? block.returned_bytes
                                                                       : block.kept_bytes) /
           split.pipeline;
  }
  return static_cast<int64_t>(out);
}

}  // namespace convoy::plan
