#include <algorithm>
#include <limits>
#include <numeric>

#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/zero/state_bytes.h"
#include "convoy/planner/time/bound_parts.h"
#include "convoy/planner/time/bounds.h"

namespace convoy::planner {

using parallel::Cut;

namespace {

int64_t least_bytes_of_cut(const Cut& cut, const ModelCosts& numbers,
                           const std::vector<BlockCost>& blocks,
                           const std::vector<double>& elements, double state,
                           const Parallelism& split) {
  const auto stages = static_cast<size_t>(split.ranks.pipeline);
  const auto pipe = parallel::pipe_of(cut, split.micro_batches);
  std::vector<std::vector<int64_t>> begun;  // [stage] by virtual stage
  for (size_t s = 0; s < stages; ++s) {
    begun.push_back(parallel::begun_forwards(split.pipeline.schedule, pipe, static_cast<int>(s)));
  }
  std::vector<double> out(stages, 0);
  std::vector<std::vector<double>> saved(stages);  // by what may be recomputed
  std::vector<size_t> seen(stages, 0);
  for (const auto& [first, last, stage] : cut) {
    const auto s = static_cast<size_t>(stage);
    const auto times = static_cast<double>(begun[s][seen[s]++]);
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
  for (size_t s = 0; s < stages; ++s)
    out[s] -= most_of(std::move(saved[s]), split.blocks_recomputed());
  return static_cast<int64_t>(*std::max_element(out.begin(), out.end()));
}

}  // namespace

int64_t least_bytes(const ModelCosts& numbers, const Cluster& cluster, const StepFacts& facts,
                    const Parallelism& split) {
  const double state = parallel::state_bytes_of_parameter(split.mesh(), split, facts);
  const auto elements = elements_of(numbers, facts, split);
  const auto blocks = numbers.blocks(share_of(split));
  double out =
      std::accumulate(elements.begin(), elements.end(), 0.0) / split.ranks.pipeline * state;
  std::vector<double> saved;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const auto kept = static_cast<double>(blocks[b].kept_bytes),
               left = static_cast<double>(blocks[b].returned_bytes);
    out += (is_recomputed(numbers, split, b) ? left : kept) / split.ranks.pipeline;
    if (may_be_recomputed(numbers, split, b)) saved.push_back((kept - left) / split.ranks.pipeline);
  }
  out -= most_of(std::move(saved), split.blocks_recomputed() * split.ranks.pipeline);
  const auto least = static_cast<int64_t>(out);
  if (split.ranks.pipeline == 1 || !cluster.each.empty()) return least;
  const auto cuts = cuts_of(numbers, facts, split);
  int64_t of_cuts = std::numeric_limits<int64_t>::max();
  for (const auto& cut : cuts) {
    of_cuts = std::min(of_cuts, least_bytes_of_cut(cut, numbers, blocks, elements, state, split));
  }
  return cuts.empty() ? least : std::max(least, of_cuts);
}

int64_t least_recomputed(const ModelCosts& numbers, const Cluster& cluster, const StepFacts& facts,
                         Parallelism split) {
  const auto fits = [&](int64_t blocks) {
    split.set_blocks_recomputed(blocks);
    return fit_of(numbers, cluster, least_bytes(numbers, cluster, facts, split)) != Fit::No;
  };
  const auto blocks = static_cast<int64_t>(numbers.model.blocks.size());
  int64_t bad = -1, good = (blocks + split.ranks.pipeline - 1) / split.ranks.pipeline;
  if (!fits(good)) return -1;
  while (good - bad > 1) {
    const int64_t middle = (bad + good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace convoy::planner
