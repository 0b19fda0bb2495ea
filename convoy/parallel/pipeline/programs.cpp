#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::parallel {

namespace {

/// Messages by rank and peer, which the rank receives in the order sent.
std::vector<Incoming> messages(const Cut& cut,
                               const std::vector<std::vector<BlockAction>>& actions) {
  std::map<int64_t, int> before, after;  // [block] who holds the stretch before or after it
  for (size_t v = 0; v < cut.size(); ++v) {
    if (v > 0) before[cut[v].first_block] = cut[v - 1].stage;
    if (v + 1 < cut.size()) after[cut[v].last_block] = cut[v + 1].stage;
  }
  std::vector<Incoming> out(actions.size());
  const auto send = [&](int from, int to, Op op, int64_t block, int64_t m) {
    if (from == to) return;
    out[static_cast<size_t>(to)][from].push_back(
        {.op = op, .block = block, .micro_batch = m, .peer = from});
  };
  for (size_t r = 0; r < actions.size(); ++r) {
    const auto rank = static_cast<int>(r);
    for (const auto& [kind, first, last, m] : actions[r]) {
      const bool forward = kind == ActionKind::Forward;
      if (forward && after.contains(last)) send(rank, after[last], Op::Receive, last, m);
      if (forward || kind == ActionKind::BackwardWeight || !before.contains(first)) continue;
      send(rank, before[first], Op::ReceiveGrad, first - 1, m);
    }
  }
  return out;
}

void add(std::vector<double>& to, size_t v, const std::vector<double>& of, size_t block) {
  if (!of.empty()) to[v] += of.at(block);
}

}  // namespace

Pipe pipe_of(const Cut& cut, int64_t num_micro_batches, const Costs& costs,
             const std::set<int64_t>& recomputed) {
  Pipe out{.rank_of = {}, .num_micro_batches = num_micro_batches};
  for (const auto& stretch : cut) out.rank_of.push_back(stretch.stage);
  if (costs.forward.empty()) return out;
  auto& sums = out.costs;
  for (auto* all : {&sums.forward, &sums.backward, &sums.weight}) all->assign(cut.size(), 0);
  if (!costs.kept.empty()) {
    for (auto* all : {&sums.kept, &sums.put_off}) all->assign(cut.size(), 0);
  }
  if (!costs.send.empty()) sums.send.assign(cut.size(), 0);
  if (!costs.send_grad.empty()) sums.send_grad.assign(cut.size(), 0);
  for (size_t v = 0; v < cut.size(); ++v) {
    for (int64_t block = cut[v].first_block; block <= cut[v].last_block; ++block) {
      const auto b = static_cast<size_t>(block);
      const bool again = recomputed.contains(block);
      sums.forward[v] += costs.forward[b];
      sums.backward[v] += costs.backward[b] + (again ? costs.forward[b] : 0);
      sums.weight[v] += costs.weight_half(b);
      add(sums.put_off, v, costs.put_off.empty() ? costs.kept : costs.put_off, b);
      if (!costs.kept.empty()) add(sums.kept, v, again ? costs.inputs : costs.kept, b);
    }
    const bool receives = v > 0 && cut[v - 1].stage != cut[v].stage;
    if (receives && !sums.kept.empty()) {
      add(sums.kept, v, costs.sent_bytes, static_cast<size_t>(cut[v].first_block) - 1);
    }
    const auto border = static_cast<size_t>(cut[v].last_block);
    add(sums.send, v, costs.send, border);
    add(sums.send_grad, v, costs.send_grad, border);
  }
  return out;
}

std::vector<std::vector<BlockAction>> actions_of(const Cut& cut, const Orders& orders) {
  std::vector<std::vector<BlockAction>> out;
  for (const auto& order : orders) {
    auto& actions = out.emplace_back();
    for (const auto& [v, kind, m] : order) {
      const auto& stretch = cut.at(static_cast<size_t>(v));
      actions.push_back({kind, stretch.first_block, stretch.last_block, m});
    }
  }
  return out;
}

std::vector<Program> pipeline_programs(const Cut& cut, const Orders& orders,
                                       const std::vector<Layout>& layouts,
                                       const StepOptions& options) {
  internal_check(stages_of(cut) == layouts.front().options().stages, "parallel",
                 "a cut of other stages");
  const auto actions = actions_of(cut, orders);
  const auto incoming = messages(cut, actions);
  std::vector<Program> out;
  for (size_t s = 0; s < layouts.size(); ++s) {
    auto step = step_program(layouts[s], options, actions.at(s), incoming[s]);
    out.push_back(with_offload(with_gathers(std::move(step), layouts[s], options), layouts[s]));
  }
  return out;
}

std::vector<Program> pipeline_programs(PipelineSchedule schedule,
                                       const std::vector<Layout>& layouts,
                                       const StepOptions& options, const Costs& by_block) {
  const auto cut = cut_of(layouts.front());
  const auto pipe = pipe_of(cut, options.parallelism.micro_batches, by_block, options.recomputed);
  const auto orders = schedule->orders(pipe);
  return pipeline_programs(cut, orders, layouts, options);
}

}  // namespace convoy::parallel
