#include "convoy/parallel/recompute/recompute.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::parallel {

namespace {

double saved_by(const Costs& costs, int64_t block) {
  const auto b = static_cast<size_t>(block);
  return costs.kept.at(b) - (costs.inputs.empty() ? 0 : costs.inputs.at(b));
}

/// Blocks of `blocks` that can be recomputed, by falling savings.
std::vector<int64_t> in_order(std::vector<int64_t> blocks, const Costs& costs,
                              const std::set<int64_t>& repeatable) {
  std::erase_if(blocks, [&](int64_t b) { return !repeatable.contains(b); });
  std::stable_sort(blocks.begin(), blocks.end(),
                   [&](int64_t a, int64_t b) { return saved_by(costs, a) > saved_by(costs, b); });
  return blocks;
}

/// Block ranges of one stage, and the memory that it keeps over a step.
class StageMemory {
 public:
  StageMemory(const Cut& cut, const std::vector<Action>& order, int stage, const Costs& costs,
              const std::set<int64_t>& repeatable)
      : costs_(costs) {
    std::map<int64_t, size_t> place;  // [virtual stage]
    for (size_t v = 0; v < cut.size(); ++v) {
      if (cut[v].stage != stage) continue;
      place[static_cast<int64_t>(v)] = stretches_.size();
      auto& blocks = stretches_.emplace_back();
      for (int64_t b = cut[v].first_block; b <= cut[v].last_block; ++b) blocks.push_back(b);
      candidates_.push_back(in_order(blocks, costs, repeatable));
      const bool receives = v > 0 && cut[v - 1].stage != stage && !costs.sent_bytes.empty();
      received_.push_back(
          receives ? costs.sent_bytes.at(static_cast<size_t>(cut[v].first_block) - 1) : 0);
    }
    Moment now;
    now.kept.assign(stretches_.size(), 0);
    now.halves = now.kept;
    for (const auto& [v, kind, m] : order) {
      const size_t at = place.at(v);
      if (kind == ActionKind::Forward) ++now.kept[at];
      now.backward = kind == ActionKind::Forward ? -1 : static_cast<int64_t>(at);
      now.in_halves = kind == ActionKind::BackwardInput;
      if (kind == ActionKind::BackwardWeight) now.backward = -1;
      moments_.insert(now);
      if (kind == ActionKind::Backward || kind == ActionKind::BackwardInput) --now.kept[at];
      if (kind == ActionKind::BackwardInput) ++now.halves[at];
      if (kind == ActionKind::BackwardWeight) --now.halves[at];
      now.backward = -1;
      moments_.insert(now);
    }
  }

  size_t num_stretches() const { return stretches_.size(); }
  /// Blocks of a range that can be recomputed, in order of preference.
  const std::vector<int64_t>& candidates(size_t stretch) const { return candidates_[stretch]; }

  std::vector<int64_t> all_candidates() const {
    std::vector<int64_t> out;
    for (const auto& blocks : candidates_) out.insert(out.end(), blocks.begin(), blocks.end());
    return out;
  }

  /// Set of the first `counts` candidates of each range.
  std::set<int64_t> chosen(const std::vector<size_t>& counts) const {
    std::set<int64_t> out;
    for (size_t s = 0; s < counts.size(); ++s) {
      for (size_t n = 0; n < counts[s]; ++n) out.insert(candidates_[s][n]);
    }
    return out;
  }

  double time_of(const std::set<int64_t>& blocks) const {
    double out = 0;
    for (const int64_t b : blocks) out += costs_.forward.at(static_cast<size_t>(b));
    return out;
  }

  /// Peak of the bytes that are kept, as simulate() counts them.
  double peak(const std::set<int64_t>& recomputed) const {
    std::vector<double> kept, halves, again, again_in_halves;
    for (const auto& blocks : stretches_) {
      double all = 0, put_off = 0, freed = 0, most = 0, freed_in_halves = 0, most_in_halves = 0;
      for (auto b = blocks.rbegin(); b != blocks.rend(); ++b) {
        const auto at = static_cast<size_t>(*b);
        const double half = (costs_.put_off.empty() ? costs_.kept : costs_.put_off).at(at);
        const double saved = recomputed.contains(*b) ? saved_by(costs_, *b) : 0;
        most = std::max(most, saved - freed);
        most_in_halves = std::max(most_in_halves, saved - freed_in_halves);
        const double keeps = costs_.kept.at(at) - saved;
        all += keeps;
        put_off += half;
        freed += keeps;
        freed_in_halves += keeps - half;
      }
      kept.push_back(all + received_[kept.size()]);
      halves.push_back(put_off);
      again.push_back(most);
      again_in_halves.push_back(most_in_halves);
    }
    double out = 0;
    for (const auto& moment : moments_) {
      double now = 0;
      for (size_t s = 0; s < kept.size(); ++s) {
        now += static_cast<double>(moment.kept[s]) * kept[s] +
               static_cast<double>(moment.halves[s]) * halves[s];
      }
      if (moment.backward >= 0) {
        now += (moment.in_halves ? again_in_halves : again)[static_cast<size_t>(moment.backward)];
      }
      out = std::max(out, now);
    }
    return out;
  }

 private:
  /// Moment of a step: micro-batches kept by range, and the range that runs backward.
  struct Moment {
    std::vector<int64_t> kept, halves;
    int64_t backward = -1;
    bool in_halves = false;

    bool operator<(const Moment& other) const {
      return std::tie(kept, halves, backward, in_halves) <
             std::tie(other.kept, other.halves, other.backward, other.in_halves);
    }
  };

  const Costs& costs_;
  std::vector<std::vector<int64_t>> stretches_, candidates_;  // blocks
  std::vector<double> received_;                              // bytes of a micro-batch, by stretch
  std::set<Moment> moments_;
};

/// Keeps the fastest set of recomputed blocks that fits.
class Fitting {
 public:
  Fitting(const StageMemory& stage, double memory) : stage_(stage), memory_(memory * (1 + 1e-9)) {}

  void try_out(std::set<int64_t> blocks) {
    const double time = stage_.time_of(blocks);
    if (time >= time_ || stage_.peak(blocks) > memory_) return;
    time_ = time;
    best_ = std::move(blocks);
  }
  const std::optional<std::set<int64_t>>& best() const { return best_; }

 private:
  const StageMemory& stage_;
  double memory_, time_ = std::numeric_limits<double>::infinity();
  std::optional<std::set<int64_t>> best_;
};

/// Tries all ways to take `left` blocks from the ranges from `at` on, of each its first candidates.
void take_first(const StageMemory& stage, size_t left, std::vector<size_t>& counts, size_t at,
                Fitting& fitting) {
  const size_t all = stage.candidates(at).size();
  if (at + 1 == counts.size()) {
    counts[at] = left;
    if (left <= all) fitting.try_out(stage.chosen(counts));
    return;
  }
  for (counts[at] = 0; counts[at] <= std::min(left, all); ++counts[at]) {
    take_first(stage, left - counts[at], counts, at + 1, fitting);
  }
}

/// Tries all ways to take `left` of the candidates from `at` on.
void take_any(const std::vector<int64_t>& candidates, size_t left, std::set<int64_t>& taken,
              size_t at, Fitting& fitting) {
  if (left == 0) return fitting.try_out(taken);
  for (; at + left <= candidates.size(); ++at) {
    taken.insert(candidates[at]);
    take_any(candidates, left - 1, taken, at + 1, fitting);
    taken.erase(candidates[at]);
  }
}

/// Smallest set of recomputed blocks with which a stage fits; nothing where none does.
std::optional<std::set<int64_t>> fewest(const StageMemory& stage, double memory) {
  constexpr size_t kFew = 12;  // all their sets can be looked at
  const auto all = stage.all_candidates();
  std::vector<size_t> counts(stage.num_stretches());
  std::set<int64_t> taken;
  Fitting fitting(stage, memory);
  for (size_t total = 0; total <= all.size(); ++total) {
    if (all.size() <= kFew) {
      take_any(all, total, taken, 0, fitting);
    } else {
      take_first(stage, total, counts, 0, fitting);
    }
    if (fitting.best()) return fitting.best();
  }
  return std::nullopt;
}

/// Bytes that each stage keeps with all possible blocks recomputed.
std::vector<double> least_of_stages(const Cut& cut, const Orders& orders, const Costs& by_block,
                                    const std::set<int64_t>& repeatable) {
  std::vector<double> out;
  for (size_t s = 0; s < orders.size(); ++s) {
    const StageMemory stage(cut, orders[s], static_cast<int>(s), by_block, repeatable);
    const auto all = stage.all_candidates();
    out.push_back(stage.peak({all.begin(), all.end()}));
  }
  return out;
}

}  // namespace

double least_memory(const Cut& cut, const Orders& orders, const Costs& by_block,
                    const std::set<int64_t>& repeatable) {
  const auto of_stages = least_of_stages(cut, orders, by_block, repeatable);
  return *std::max_element(of_stages.begin(), of_stages.end());
}

double most_kept(const Cut& cut, const std::vector<Action>& order, int stage, const Costs& by_block,
                 const std::set<int64_t>& recomputed) {
  return StageMemory(cut, order, stage, by_block, {}).peak(recomputed);
}

std::set<int64_t> blocks_to_recompute(const Cut& cut, const Orders& orders, const Costs& by_block,
                                      const std::set<int64_t>& repeatable, double memory) {
  std::set<int64_t> out;
  for (size_t s = 0; s < orders.size(); ++s) {
    auto of_stage = fewest({cut, orders[s], static_cast<int>(s), by_block, repeatable}, memory);
    if (of_stage) {
      out.merge(*of_stage);
      continue;
    }
    const auto least = least_of_stages(cut, orders, by_block, repeatable);
    const auto most = std::max_element(least.begin(), least.end());
    fail<UsageError>(
        "parallel",
        "stage {} keeps {} for backward with all blocks recomputed that can be, among it "
        "what one of them keeps while it is recomputed; pipeline_memory = {:.0f} is "
        "less; try pipeline_memory = {:.0f}",
        most - least.begin(), human_bytes(*most), memory, std::ceil(*most));
  }
  return out;
}

std::set<int64_t> blocks_to_recompute(const Cut& cut, const std::vector<int64_t>& num_of_stage,
                                      const Costs& by_block, const std::set<int64_t>& repeatable) {
  const auto stages = stages_of(cut);
  internal_check(stages.size() == num_of_stage.size(), "parallel", "{} numbers for {} stages",
                 num_of_stage.size(), stages.size());
  std::set<int64_t> out;
  for (size_t s = 0; s < stages.size(); ++s) {
    const auto blocks = in_order(stages[s], by_block, repeatable);
    if (num_of_stage[s] < 0 || num_of_stage[s] > static_cast<int64_t>(blocks.size())) {
      fail<UsageError>("parallel",
                       "recompute_layers asks for {} blocks of stage {}, which has {} that can be "
                       "recomputed",
                       num_of_stage[s], s, blocks.size());
    }
    out.insert(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(num_of_stage[s]));
  }
  return out;
}

}  // namespace convoy::parallel
