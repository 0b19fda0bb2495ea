#include "convoy/plan/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "convoy/plan/offload.h"
#include "convoy/plan/uneven.h"
#include "convoy/schedule/pipeline/pipeline.h"

namespace convoy::plan {

namespace {

using schedule::Cut;

/// Elements of each block on the tensor rank that has most; what several read is the first one's.
std::vector<double> count_elements(const schedule::ModelDecl& model, int tensor) {
  const schedule::TensorPlace place{tensor - 1, tensor};
  std::vector<double> out;
  std::vector<bool> counted(model.params.size());
  for (const auto& block : model.blocks) {
    auto& elements = out.emplace_back(0);
    for (const int64_t p : block.params) {
      const auto at = static_cast<size_t>(p);
      const auto& param = model.params[at];
      if (!param.trained || counted[at]) continue;
      counted[at] = true;
      elements += static_cast<double>(
          schedule::num_elements(schedule::local_shape(param.shape, param.cut, place)));
    }
  }
  return out;
}

std::vector<double> elements_of(const Numbers& numbers, int tensor) {
  if (!numbers.known) return count_elements(numbers.model, tensor);
  auto [found, fresh] = numbers.known->elements.try_emplace(tensor);
  if (fresh) found->second = count_elements(numbers.model, tensor);
  return found->second;
}

bool is_recomputed(const Numbers& numbers, const Split& split, size_t block) {
  const auto& blocks = numbers.model.blocks;
  return split.recompute && block + 1 < blocks.size() && blocks[block].repeatable;
}

/// Whether a block may be one of those that are recomputed, where not all are.
bool may_be_recomputed(const Numbers& numbers, const Split& split, size_t block) {
  const auto& blocks = numbers.model.blocks;
  return split.recomputed > 0 && block + 1 < blocks.size() && blocks[block].repeatable;
}

/// The sum of the `number` smallest.
double least_of(std::vector<double> values, int64_t number) {
  const auto some = std::min(std::ssize(values), std::ptrdiff_t{number});
  std::nth_element(values.begin(), values.begin() + std::max<std::ptrdiff_t>(some - 1, 0),
                   values.end());
  return std::accumulate(values.begin(), values.begin() + some, 0.0);
}

/// The sum of the `number` largest.
double most_of(std::vector<double> values, int64_t number) {
  for (auto& value : values) value = -value;
  return -least_of(std::move(values), number);
}

Cut cut_by_cost(const Numbers& numbers, const schedule::RunOptions& base, const Split& split,
                int virtual_stages, schedule::Placement placement) {
  const auto by_block = schedule::shared_costs(numbers.model, base);
  std::vector<double> costs;
  for (size_t b = 0; b < by_block.forward.size(); ++b) {
    costs.push_back(by_block.backward[b] +
                    (is_recomputed(numbers, split, b) ? 2 : 1) * by_block.forward[b]);
  }
  if (!numbers.known) return schedule::cut_blocks(costs, split.pipeline, virtual_stages, placement);
  return numbers.known->choices.pipes().cut(costs, split.pipeline, virtual_stages, placement);
}

/// The cuts that the schedule of a split chooses among.
std::vector<Cut> cuts_of(const Numbers& numbers, const schedule::RunOptions& base,
                         const Split& split) {
  using schedule::Placement;
  const auto options = split.options(base);
  const bool interleaved = schedule::entry_of(split.schedule).interleaved;
  const int each = interleaved ? static_cast<int>(options.pipeline.virtual_stages) : 1;
  const bool either = interleaved && split.schedule == schedule::PipelineSchedule::ZeroBubble;
  std::vector<Cut> out;
  const auto needed = static_cast<size_t>(split.pipeline) * static_cast<size_t>(each);
  const bool joins = options.zero >= 2 && options.reduce_each;  // neighbours on a rank
  if (joins || !split.cut.empty() || numbers.model.blocks.size() < needed) return out;
  for (const auto placement : {Placement::Loop, Placement::V}) {
    if (placement == Placement::V && !(either && each == 2)) continue;
    if (!numbers.known) {
      out.push_back(cut_by_cost(numbers, base, split, each, placement));
      continue;
    }
    auto [found, fresh] =
        numbers.known->cuts.try_emplace({split.pipeline, each, placement, split.recompute});
    if (fresh) found->second = cut_by_cost(numbers, base, split, each, placement);
    out.push_back(found->second);
  }
  return out;
}

/// All work of a rank, after the first micro-batch's way to it, and before the last one's way back.
double least_of_cut(const Cut& cut, const schedule::Costs& costs, const Numbers& numbers,
                    const Split& split) {
  const bool halves = split.schedule == schedule::PipelineSchedule::ZeroBubble;
  const auto stages = static_cast<size_t>(split.pipeline);
  std::vector<double> comes(stages, -1), leaves(stages, 0), work(stages, 0), weights(stages, 0);
  std::vector<std::vector<double>> again_of(stages);  // forward of what may be recomputed
  double there = 0, back = 0;
  for (size_t v = 0; v < cut.size(); ++v) {
    const auto rank = static_cast<size_t>(cut[v].stage);
    if (comes[rank] < 0) {
      comes[rank] = there;
      leaves[rank] = back;
    }
    for (int64_t block = cut[v].first_block; block <= cut[v].last_block; ++block) {
      const auto b = static_cast<size_t>(block);
      const double again = is_recomputed(numbers, split, b) ? 1 : 0;
      const double weight = halves ? costs.weight[b] : 0;
      there += costs.forward[b];
      back += again * costs.forward[b] + costs.backward[b] - weight;
      work[rank] += (1 + again) * costs.forward[b] + costs.backward[b];
      weights[rank] += weight;
      if (may_be_recomputed(numbers, split, b)) again_of[rank].push_back(costs.forward[b]);
    }
    if (v + 1 == cut.size() || cut[v + 1].stage == cut[v].stage) continue;
    const auto border = static_cast<size_t>(cut[v].last_block);
    there += costs.send[border];
    back += costs.send_grad[border];
  }
  const auto micro_batches = static_cast<double>(split.micro_batches);
  double out = 0;
  for (size_t r = 0; r < stages; ++r) {
    work[r] += least_of(std::move(again_of[r]), split.recomputed);
    out = std::max({out, comes[r] + micro_batches * work[r],
                    comes[r] + micro_batches * (work[r] - weights[r]) + leaves[r]});
  }
  return out;
}

/// Elements of what backward reads, too, on a tensor rank; and the most that a bucket may have.
struct Gathered {
  double in_backward = 0, largest = 0;
};

Gathered gathered_of(const Numbers& numbers, const schedule::RunOptions& base, int tensor,
                     const std::vector<double>& elements) {
  const schedule::TensorPlace place{tensor - 1, tensor};
  Gathered out;
  for (const auto& param : numbers.model.params) {
    if (!param.trained || !param.read_in_backward) continue;
    out.in_backward += static_cast<double>(
        schedule::num_elements(schedule::local_shape(param.shape, param.cut, place)));
  }
  out.largest = *std::max_element(elements.begin(), elements.end()) +
                static_cast<double>(base.bucket_bytes) / sizeof(float);
  return out;
}

/// What the sums of a step's gradients take, one after the other, and the gathers of weights that
/// stage 3 shares out: no step is faster.
double least_of_links(const Numbers& numbers, const Cluster& cluster, const schedule::Mesh& mesh,
                      const schedule::RunOptions& options, const Split& split,
                      const std::vector<double>& of_blocks) {
  if (split.state_ranks() == 1) return 0;
  auto* known = numbers.known ? &numbers.known->sums : nullptr;
  const GroupTimes state(cluster, mesh, schedule::kState, known);
  const double elements = std::accumulate(of_blocks.begin(), of_blocks.end(), 0.0) / split.pipeline;
  const auto micro_batches = static_cast<double>(split.micro_batches);
  const double bytes = sizeof(float) * elements;
  if (split.zero == 0) {
    return GroupTimes(cluster, mesh, schedule::kGradients, known)
        .least(Collective::AllReduce, bytes);
  }
  const bool each = split.zero >= 2 && options.reduce_each;
  double out = state.least(Collective::ReduceScatter, bytes) * (each ? micro_batches : 1);
  if (split.zero < 3 || split.pipeline > 1 || options.keep_bytes > 0) return out;
  // Where backward turns into forward and forward into backward some buckets are still there.
  const auto& [in_backward, largest] = gathered_of(numbers, options, split.tensor, of_blocks);
  const double kept = static_cast<double>(options.gathers.prefetch + 1) * largest;
  const double turns = options.gathers.times();
  const double gathered = elements + (turns > 1 ? in_backward : 0) - turns * kept;
  const double width = options.low_precision ? 2 : 4;
  return gathered > 0 ? out + micro_batches * state.least(Collective::AllGather, width * gathered)
                      : out;
}

/// How often each virtual stage of a rank has run forward when a first backward is due.
std::vector<int64_t> begun(const Split& split, int rank, int64_t virtual_stages) {
  const int64_t p = split.pipeline, m = split.micro_batches;
  std::vector<int64_t> out(static_cast<size_t>(virtual_stages), 1);
  using schedule::PipelineSchedule;
  if (split.schedule == PipelineSchedule::OneFOneB) out[0] = std::min(m, p - rank);
  if (split.schedule != PipelineSchedule::Interleaved || m % p != 0) return out;
  int64_t left = std::min(m * virtual_stages, 2 * (p - 1 - rank) + (virtual_stages - 1) * p + 1);
  std::fill(out.begin(), out.end(), 0);
  for (size_t n = 0; left > 0; n = (n + 1) % out.size()) {  // in groups of p micro-batches
    const int64_t some = std::min(left, p);
    out[n] += some;
    left -= some;
  }
  return out;
}

int64_t least_bytes_of_cut(const Cut& cut, const Numbers& numbers,
                           const std::vector<BlockCost>& blocks,
                           const std::vector<double>& elements, double state, const Split& split) {
  const auto stages = static_cast<size_t>(split.pipeline);
  const auto each = static_cast<int64_t>(cut.size() / stages);
  std::vector<double> out(stages, 0);
  std::vector<std::vector<double>> saved(stages);  // by what may be recomputed
  std::vector<size_t> seen(stages, 0);
  for (const auto& [first, last, stage] : cut) {
    const auto s = static_cast<size_t>(stage);
    const auto times = static_cast<double>(begun(split, stage, each)[seen[s]++]);
    for (int64_t block = first; block <= last; ++block) {
      const auto b = static_cast<size_t>(block);
      out[s] += state * elements[b];
      const auto kept = static_cast<double>(blocks[b].kept_bytes);
      const bool is_sent = block == last;  // and then it is gone
      const auto left = is_sent ? 0.0 : static_cast<double>(blocks[b].returned_bytes);
      out[s] += times * (is_recomputed(numbers, split, b) ? left : kept);
      if (may_be_recomputed(numbers, split, b)) saved[s].push_back(times * (kept - left));
    }
  }
  for (size_t s = 0; s < stages; ++s) out[s] -= most_of(std::move(saved[s]), split.recomputed);
  return static_cast<int64_t>(*std::max_element(out.begin(), out.end()));
}

/// What a step takes at the least with its updates, which are part of it.
struct Computing {
  double seconds = 0, updates = 0;
  double elements = 0;  ///< that a rank updates
};

Computing computing_of(const Numbers& numbers, const Cluster& cluster,
                       const schedule::RunOptions& base, const Split& split) {
  const auto mesh = split.mesh();
  const auto costs = seconds_of(numbers.blocks(split.share()), cluster, mesh,
                                fastest_link_of_stages(cluster, mesh), base.low_precision,
                                numbers.known ? &numbers.known->sums : nullptr);
  double out = 0, sums = 0;
  for (size_t b = 0; b < costs.forward.size(); ++b) {
    const double times = is_recomputed(numbers, split, b) ? 2 : 1;
    out += times * costs.forward[b] + costs.backward[b];
    sums += times * costs.forward_sums[b] + costs.backward_sums[b];
  }
  // Any blocks of all stages might be the ones that are recomputed.
  std::vector<double> again;
  for (size_t b = 0; b < costs.forward.size(); ++b) {
    if (!may_be_recomputed(numbers, split, b)) continue;
    again.push_back(costs.forward[b] - costs.forward_sums[b]);
  }
  out += least_of(std::move(again), split.recomputed * split.pipeline);
  const int64_t shard = split.shard > 0 ? split.shard : split.state_ranks();
  const auto updating = static_cast<double>(split.pipeline * (split.zero > 0 ? shard : 1));
  const auto of_blocks = elements_of(numbers, split.tensor);
  const double elements = std::accumulate(of_blocks.begin(), of_blocks.end(), 0.0) / updating;
  // The slowest pipeline has as many rows as any other. A stage of speed v takes T >= M (c / v + k)
  // for its share c of the computing and k of the sums, so T sum(v) >= M (sum(c) + sum(k) min(v)).
  const auto micro_batches = static_cast<double>(split.micro_batches);
  double computing = out * micro_batches / split.pipeline, fastest = 1;
  if (!cluster.each.empty()) {
    computing = 0;
    for (const auto& speeds : speeds_of(cluster, mesh, base.low_precision)) {
      const auto [slow, fast] = std::minmax_element(speeds.begin(), speeds.end());
      fastest = std::max(fastest, *fast);
      computing = std::max(computing, micro_batches * (out - sums + sums * *slow) /
                                          std::accumulate(speeds.begin(), speeds.end(), 0.0));
    }
  }
  // A stage with one virtual stage waits for those before it to run forward once, and they for it
  // to run backward: T >= M c_s + (c_0 + ... + c_(s-1)) for every s, whatever the cut.
  if (cluster.each.empty() && split.pipeline > 1 &&
      !schedule::entry_of(split.schedule).interleaved) {
    computing = out / (1 - std::pow(1 - 1 / micro_batches, split.pipeline));
  }
  const double updates = elements * numbers.update_seconds / fastest;
  double least = computing + updates;
  if (cluster.each.empty() && split.pipeline > 1) {
    double of_cuts = std::numeric_limits<double>::infinity();
    const auto cuts = cuts_of(numbers, base, split);
    for (const auto& cut : cuts) {
      of_cuts = std::min(of_cuts, least_of_cut(cut, costs, numbers, split));
    }
    if (!cuts.empty()) least = std::max(least, of_cuts);
  }
  return {least, updates, elements};
}

}  // namespace

double least_computing(const Numbers& numbers, const Cluster& cluster,
                       const schedule::RunOptions& base, const Split& split) {
  return computing_of(numbers, cluster, base, split).seconds;
}

double least_seconds(const Numbers& numbers, const Cluster& cluster,
                     const schedule::RunOptions& base, const Split& split) {
  const auto [computing, updates, elements] = computing_of(numbers, cluster, base, split);
  const auto options = split.options(base);
  const double links = least_of_links(numbers, cluster, split.mesh(), options, split,
                                      elements_of(numbers, split.tensor));
  const double least = std::max(computing, links + updates);
  if (!split.offloads()) return least;
  return std::max(least, least_transfer_seconds(elements, cluster, options, split.num_ranks()));
}

int64_t least_bytes(const Numbers& numbers, const Cluster& cluster,
                    const schedule::RunOptions& base, const Split& split) {
  const double state = schedule::state_bytes_of_parameter(split.mesh(), split.options(base));
  const auto elements = elements_of(numbers, split.tensor);
  const auto blocks = numbers.blocks(split.share());
  double out = std::accumulate(elements.begin(), elements.end(), 0.0) / split.pipeline * state;
  std::vector<double> saved;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const auto kept = static_cast<double>(blocks[b].kept_bytes),
               left = static_cast<double>(blocks[b].returned_bytes);
    out += (is_recomputed(numbers, split, b) ? left : kept) / split.pipeline;
    if (may_be_recomputed(numbers, split, b)) saved.push_back((kept - left) / split.pipeline);
  }
  out -= most_of(std::move(saved), split.recomputed * split.pipeline);
  const auto least = static_cast<int64_t>(out);
  if (split.pipeline == 1 || !cluster.each.empty()) return least;
  const auto cuts = cuts_of(numbers, base, split);
  int64_t of_cuts = std::numeric_limits<int64_t>::max();
  for (const auto& cut : cuts) {
    of_cuts = std::min(of_cuts, least_bytes_of_cut(cut, numbers, blocks, elements, state, split));
  }
  return cuts.empty() ? least : std::max(least, of_cuts);
}

int64_t least_recomputed(const Numbers& numbers, const Cluster& cluster,
                         const schedule::RunOptions& base, Split split) {
  const auto fits = [&](int64_t blocks) {
    split.recomputed = blocks;
    return fit_of(numbers, cluster, least_bytes(numbers, cluster, base, split)) != Fit::No;
  };
  const auto blocks = static_cast<int64_t>(numbers.model.blocks.size());
  int64_t bad = -1, good = (blocks + split.pipeline - 1) / split.pipeline;
  if (!fits(good)) return -1;
  while (good - bad > 1) {
    const int64_t middle = (bad + good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace convoy::plan
