#include "convoy/planner/time/bound_parts.h"

#include <algorithm>
#include <numeric>

#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::planner {

using parallel::Cut;

namespace {

SearchCache::Shares shares_of(const Parallelism& split) {
  return {split.ranks.tensor, split.mesh().degree(parallel::Axis::Expert)};
}

/// Number of elements of a parameter on the tensor rank that has most; 0 for a table that is kept
/// by rows.
double count_elements(const parallel::ParamDecl& param, const Parallelism& split,
                      const StepFacts& facts) {
  if (split.keeps_rows(facts.trains) && param.row_reads) return 0;
  const auto [tensor, experts] = shares_of(split);
  const parallel::TensorPlace place{static_cast<int>(tensor) - 1, static_cast<int>(tensor), 0,
                                    static_cast<int>(experts)};
  return static_cast<double>(parallel::local_elements(param.shape, param.cut, place));
}

/// Number of elements of each block on the tensor rank that has most. A parameter of several blocks
/// counts for the first.
std::vector<double> count_elements(const parallel::ModelDecl& model, const Parallelism& split,
                                   const StepFacts& facts, bool experts = true) {
  std::vector<double> out;
  std::vector<bool> counted(model.params.size());
  for (const auto& block : model.blocks) {
    auto& elements = out.emplace_back(0);
    for (const int64_t p : block.params) {
      const auto at = static_cast<size_t>(p);
      const auto& param = model.params[at];
      if (!param.trained || counted[at]) continue;
      if (!experts && param.cut.experts.of > 0) continue;
      counted[at] = true;
      elements += count_elements(param, split, facts);
    }
  }
  return out;
}

double count_read_in_backward(const parallel::ModelDecl& model, const Parallelism& split,
                              const StepFacts& facts) {
  double out = 0;
  const bool all = shares_of(split).second == 1;
  for (const auto& param : model.params) {
    if (!all && param.cut.experts.of > 0) continue;
    if (param.trained && param.read_in_backward) out += count_elements(param, split, facts);
  }
  return out;
}

Cut cut_by_cost(const ModelCosts& numbers, const StepFacts& facts, const Parallelism& split,
                int virtual_stages, parallel::Placement placement) {
  const auto by_block = parallel::shared_costs(numbers.model, facts);
  std::vector<double> costs;
  for (size_t b = 0; b < by_block.forward.size(); ++b) {
    costs.push_back(by_block.backward[b] +
                    (is_recomputed(numbers, split, b) ? 2 : 1) * by_block.forward[b]);
  }
  if (!numbers.known)
    return parallel::cut_blocks(costs, split.ranks.pipeline, virtual_stages, placement);
  return numbers.known->choices.pipes().cut(costs, split.ranks.pipeline, virtual_stages, placement);
}

}  // namespace

std::vector<double> elements_of(const ModelCosts& numbers, const StepFacts& facts,
                                const Parallelism& split) {
  if (!numbers.known) return count_elements(numbers.model, split, facts);
  auto [found, fresh] = numbers.known->elements.try_emplace(shares_of(split));
  if (fresh) found->second = count_elements(numbers.model, split, facts);
  return found->second;
}

std::vector<double> elements_beside_experts(const ModelCosts& numbers, const StepFacts& facts,
                                            const Parallelism& split) {
  const auto shares = shares_of(split);
  if (shares.second == 1) return elements_of(numbers, facts, split);
  if (!numbers.known) return count_elements(numbers.model, split, facts, /*experts=*/false);
  auto [found, fresh] = numbers.known->beside_experts.try_emplace(shares);
  if (fresh) found->second = count_elements(numbers.model, split, facts, /*experts=*/false);
  return found->second;
}

double elements_read_in_backward(const ModelCosts& numbers, const StepFacts& facts,
                                 const Parallelism& split) {
  if (!numbers.known) return count_read_in_backward(numbers.model, split, facts);
  auto [found, fresh] = numbers.known->read_in_backward.try_emplace(shares_of(split));
  if (fresh) found->second = count_read_in_backward(numbers.model, split, facts);
  return found->second;
}

bool is_recomputed(const ModelCosts& numbers, const Parallelism& split, size_t block) {
  const auto& blocks = numbers.model.blocks;
  return split.recompute && block + 1 < blocks.size() && blocks[block].repeatable;
}

bool may_be_recomputed(const ModelCosts& numbers, const Parallelism& split, size_t block) {
  const auto& blocks = numbers.model.blocks;
  return split.blocks_recomputed() > 0 && block + 1 < blocks.size() && blocks[block].repeatable;
}

double least_of(std::vector<double> values, int64_t number) {
  const auto some = std::min(std::ssize(values), std::ptrdiff_t{number});
  std::nth_element(values.begin(), values.begin() + std::max<std::ptrdiff_t>(some - 1, 0),
                   values.end());
  return std::accumulate(values.begin(), values.begin() + some, 0.0);
}

double most_of(std::vector<double> values, int64_t number) {
  for (auto& value : values) value = -value;
  return -least_of(std::move(values), number);
}

std::vector<Cut> cuts_of(const ModelCosts& numbers, const StepFacts& facts,
                         const Parallelism& split) {
  using parallel::Placement;
  const bool interleaved = split.pipeline.schedule->interleaved;
  const int each = interleaved ? static_cast<int>(split.pipeline.virtual_stages) : 1;
  const bool either = interleaved && split.pipeline.schedule->either_placement;
  std::vector<Cut> out;
  const auto needed = static_cast<size_t>(split.ranks.pipeline) * static_cast<size_t>(each);
  const bool joins = split.reduces_each_shard();  // neighbours on a rank
  if (joins || !split.pipeline.splits.empty() || numbers.model.blocks.size() < needed) return out;
  for (const auto placement : {Placement::Loop, Placement::V}) {
    if (placement == Placement::V && !(either && each == 2)) continue;
    if (!numbers.known) {
      out.push_back(cut_by_cost(numbers, facts, split, each, placement));
      continue;
    }
    auto [found, fresh] =
        numbers.known->cuts.try_emplace({split.ranks.pipeline, each, placement, split.recompute});
    if (fresh) found->second = cut_by_cost(numbers, facts, split, each, placement);
    out.push_back(found->second);
  }
  return out;
}

}  // namespace convoy::planner
