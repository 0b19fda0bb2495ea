#include "convoy/planner/search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "convoy/base/error.h"
#include "convoy/parallel/knobs.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/refuse.h"
#include "convoy/planner/time/bounds.h"
#include "convoy/planner/time/uneven.h"

namespace convoy::planner {

namespace {

constexpr double kRounding = 1e-9;
/// Number of splits that are tried of a family that cannot win, to show its time and memory.
constexpr int64_t kTriesOfFamily = 6;

/// Returns a time in units of a relative rounding error, so that another criterion decides among
/// equally fast splits.
double rounded(double seconds) {
  return std::floor(std::log(seconds) / kRounding);
}

bool is_faster(const Candidate& a, const Candidate& b) {
  return std::tuple(rounded(a.prediction.seconds), a.simplicity) <
         std::tuple(rounded(b.prediction.seconds), b.simplicity);
}

/// Caches costs by share, also where the answer is an error.
ModelCosts asked_once(ModelCosts costs) {
  struct Answer {
    std::vector<BlockCost> costs;
    std::optional<UsageError> refused;
  };
  const auto ask = std::move(costs.blocks);
  costs.blocks =
      [ask, known = std::make_shared<std::map<BlockShare, Answer>>()](const BlockShare& share) {
        const auto [found, fresh] = known->try_emplace(share);
        auto& answer = found->second;
        if (fresh) {
          try {
            answer.costs = ask(share);
          } catch (const UsageError& error) {
            answer.refused = error;
          }
        }
        if (answer.refused) throw UsageError(*answer.refused);
        return answer.costs;
      };
  costs.known = std::make_shared<SearchCache>();
  return costs;
}

/// Search that tries splits and keeps their predictions.
class Search {
 public:
  Search(const ModelCosts& costs, const Cluster& cluster, const SearchSpace& space)
      : costs_(asked_once(costs)), cluster_(cluster), space_(space) {}

  void run(std::vector<Parallelism> splits, const std::function<void(size_t, size_t)>& say) {
    for (auto& reason : left_out(space_)) reasons_.insert(std::move(reason));
    if (!cluster_.each.empty()) add_cuts(splits);
    std::vector<Bounded> all;
    for (size_t n = 0; n < splits.size(); ++n) {
      const auto& split = splits[n];
      try {
        parallel::require(refuse(split, space_.facts));
        all.push_back({split, least_seconds(costs_, cluster_, space_.facts, split),
                       least_bytes(costs_, cluster_, space_.facts, split), num_seen_++});
      } catch (const UsageError& error) {
        reasons_.insert(error.what());
      }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    std::map<std::string, std::vector<const Bounded*>> passed_over;  // [family] the fastest first
    for (size_t n = 0; n < all.size(); ++n) {
      if (say) say(n, all.size());
      const auto& it = all[n];
      if (space_.all || !(is_hopeless(it) || is_slower(it, best_) || offloads_in_vain(it.split))) {
        try_out(it);
        continue;
      }
      ++found_.num_bounded;
      passed_over[it.split.family()].push_back(&it);
    }
    for (const auto& [family, rest] : passed_over) {
      if (!(fits_on_devices_ && rest.front()->split.offload.any())) show(family, rest);
    }
    refine(splits);
  }

  SearchResult take() {
    std::stable_sort(found_.tried.begin(), found_.tried.end(), [](const auto& a, const auto& b) {
      const bool fits = a.prediction.fit != Fit::No, also = b.prediction.fit != Fit::No;
      if (fits != also) return fits;
      return fits ? is_faster(a, b) : a.prediction.memory.sum() < b.prediction.memory.sum();
    });
    // A reason counts only for a family of which no split is possible.
    for (const auto& [family, reason] : of_family_) {
      if (!families_.contains(family)) reasons_.insert(reason);
    }
    found_.refused.assign(reasons_.begin(), reasons_.end());
    return std::move(found_);
  }

 private:
  struct Bounded {
    Parallelism split;
    double seconds = 0;
    int64_t bytes = 0;
    size_t simplicity = 0;
    bool recomputes_some = false;  ///< of its blocks, as few as fit
  };

  /// Adds splits whose stages are cut for unequal devices; not for several virtual stages.
  void add_cuts(std::vector<Parallelism>& splits) const {
    const auto number = splits.size();
    for (size_t n = 0; n < number; ++n) {
      auto split = splits[n];
      if (split.ranks.pipeline == 1 || split.pipeline.schedule->interleaved) continue;
      try {
        split.pipeline.splits = cut_for_speeds(costs_, cluster_, space_.facts, split);
      } catch (const UsageError&) {  // the model does not go into it
      }
      if (!split.pipeline.splits.empty()) splits.push_back(split);
    }
  }

  bool is_hopeless(const Bounded& it) const {
    return fit_of(costs_, cluster_, it.bytes) == Fit::No;
  }

  /// Whether a split fits with less of its state offloaded, which is as fast at least.
  bool offloads_in_vain(const Parallelism& split) {
    if (!split.offload.any()) return false;
    const auto less = less_offloaded(split);
    const bool out = std::any_of(less.begin(), less.end(), [&](const auto& other) {
      return splits_that_fit_.contains(other.to_text());
    });
    if (out) splits_that_fit_.insert(split.to_text());
    return out;
  }

  /// Tries more splits of a family, those that may fit and be its fastest; where none fits, the
  /// smallest, which shows the memory that it needs.
  void show(const std::string& family, std::vector<const Bounded*> rest) {
    const auto likely = [](const Bounded* it) {  // with the bubble of 1f1b
      const auto stages = static_cast<double>(it->split.ranks.pipeline);
      return it->seconds * (1 + (stages - 1) / static_cast<double>(it->split.micro_batches));
    };
    std::stable_sort(rest.begin(), rest.end(),
                     [&](const auto* a, const auto* b) { return likely(a) < likely(b); });
    int64_t tries = kTriesOfFamily;
    for (const auto* it : rest) {
      if (is_hopeless(*it) || is_slower(*it, best_of(family)) || offloads_in_vain(it->split)) {
        continue;
      }
      if (tries-- == 0) break;
      --found_.num_bounded;
      try_out(*it);
    }
    if (families_.contains(family)) return;
    --found_.num_bounded;
    try_out(**std::min_element(rest.begin(), rest.end(),
                               [](const auto* a, const auto* b) { return a->bytes < b->bytes; }));
  }

  /// Tries refinements: fewer recomputed blocks, and the variants of each knob.
  void refine(const std::vector<Parallelism>& splits) {
    std::vector<Bounded> all;
    for (const auto& split : splits) {
      try {
        const auto add = [&](const Parallelism& other) {
          all.push_back({other, least_seconds(costs_, cluster_, space_.facts, other),
                         least_bytes(costs_, cluster_, space_.facts, other), num_seen_++});
        };
        if (split.recompute) {
          auto some = split;
          some.recompute = false;
          const auto blocks = least_recomputed(costs_, cluster_, space_.facts, some);
          some.set_blocks_recomputed(blocks);
          if (blocks >= 0) {
            add(some);
            all.back().recomputes_some = true;
          }
        }
        for (const auto& knob : parallel::knobs()) {
          if (knob.variants == nullptr) continue;
          for (const auto& other : knob.variants(split, cluster_.beside > 0)) add(other);
        }
      } catch (const UsageError&) {  // was told of before
      }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    std::map<std::string, int64_t> refined;  // [family]
    for (const auto& it : all) {
      if (!space_.all && is_hopeless(it)) continue;
      const auto family = it.split.family();
      if (!is_slower(it, best_)) {
        refine(it, best_);
      } else if (const auto own = best_of(family);
                 own && !is_slower(it, own) && refined[family]++ < kTriesOfFamily) {
        refine(it, own);  // it cannot win, but shows better what its family can do
      }
    }
  }

  /// Refines a split; `limit`: slower results are of no use.
  void refine(const Bounded& it, std::optional<double> limit) {
    if (it.recomputes_some) return recompute_fewer(it, limit);
    if (space_.all || !offloads_in_vain(it.split)) try_out(it);
  }

  /// Tries the fewest recomputed blocks with which a split fits; `it` recomputes those of its
  /// bound.
  void recompute_fewer(Bounded it, std::optional<double> limit) {
    auto& split = it.split;
    int64_t too_many = std::numeric_limits<int64_t>::max();  // no stage has so many that can be
    const auto fits = [&](int64_t blocks) {
      split.set_blocks_recomputed(blocks);
      try {
        return fit_of(costs_, cluster_, space_.facts, split) != Fit::No;
      } catch (const UsageError&) {
        too_many = std::min(too_many, blocks);
        return true;
      }
    };
    const auto blocks = static_cast<int64_t>(costs_.model.blocks.size());
    const int64_t most = (blocks + split.ranks.pipeline - 1) / split.ranks.pipeline;
    int64_t bad = split.blocks_recomputed() - 1, good = most;
    if (bad < 0 && fits(++bad)) return;  // was tried without any
    // The bound is near as a rule: from there on in longer and longer steps.
    const auto is_in_vain = [&](int64_t blocks) {
      auto other = it;
      other.split.set_blocks_recomputed(blocks);
      other.seconds = least_seconds(costs_, cluster_, space_.facts, other.split);
      return is_slower(other, limit);
    };
    for (int64_t step = 1; bad + step < good; step *= 2) {
      if (is_in_vain(bad + 1)) return;
      if (fits(bad + step)) {
        good = bad + step;
        break;
      }
      bad += step;
    }
    while (good - bad > 1) {
      const int64_t middle = (bad + good) / 2;
      (fits(middle) ? good : bad) = middle;
    }
    if (good == most) fits(most);  // tells whether a stage has so many
    split.set_blocks_recomputed(good);
    if (good < too_many && !is_in_vain(good)) try_out(it);
  }

  /// Whether the lower bound of a split is above `than`.
  bool is_slower(const Bounded& it, std::optional<double> than) const {
    return !space_.all && than && it.seconds > *than * (1 + kRounding);
  }

  /// Time of the fastest split of a family that fits, so far.
  std::optional<double> best_of(const std::string& family) const {
    const auto found = best_of_.find(family);
    return found == best_of_.end() ? std::nullopt : std::optional(found->second);
  }

  void try_out(const Bounded& it) {
    const auto& split = it.split;
    try {
      const Candidate planned{split, predict(costs_, cluster_, space_.facts, split), it.simplicity};
      if (planned.prediction.fit != Fit::No) {
        best_ = std::min(best_.value_or(planned.prediction.seconds), planned.prediction.seconds);
        const auto [own, fresh] = best_of_.try_emplace(split.family(), planned.prediction.seconds);
        own->second = std::min(own->second, planned.prediction.seconds);
        splits_that_fit_.insert(split.to_text());
        fits_on_devices_ = fits_on_devices_ || !split.offload.any();
      }
      families_.insert(split.family());
      found_.tried.push_back(planned);
    } catch (const UsageError& error) {
      of_family_.emplace(split.family(), error.what());
    }
  }

  ModelCosts costs_;
  const Cluster& cluster_;
  const SearchSpace& space_;
  std::optional<double> best_;
  size_t num_seen_ = 0;
  bool fits_on_devices_ = false;
  std::set<std::string> reasons_, families_, splits_that_fit_;
  std::map<std::string, std::string> of_family_;  // why one of its splits does not go
  std::map<std::string, double> best_of_;         // [family] of what fits
  SearchResult found_;
};

}  // namespace

SearchResult search(const ModelCosts& costs, const Cluster& cluster, const SearchSpace& space,
                    const std::function<void(size_t, size_t)>& say) {
  Search one(costs, cluster, space);
  one.run(splits_of(space), say);
  return one.take();
}

const Candidate* SearchResult::best() const {
  const bool fits = !tried.empty() && tried.front().prediction.fit != Fit::No;
  return fits ? &tried.front() : nullptr;
}

std::vector<const Candidate*> SearchResult::front() const {
  std::vector<const Candidate*> out;
  for (const auto& planned : tried) {
    if (planned.prediction.fit == Fit::No) break;
    const bool smaller =
        out.empty() || planned.prediction.memory.sum() < out.back()->prediction.memory.sum();
    if (smaller) out.push_back(&planned);
  }
  return out;
}

std::vector<const Candidate*> SearchResult::of_families() const {
  std::vector<const Candidate*> out;
  std::set<std::string> names;
  for (const auto& planned : tried) {
    if (names.insert(planned.split.family()).second) out.push_back(&planned);
  }
  return out;
}

const Candidate* SearchResult::smallest() const {
  const auto found = std::min_element(tried.begin(), tried.end(), [](const auto& a, const auto& b) {
    return a.prediction.memory.sum() < b.prediction.memory.sum();
  });
  return found == tried.end() ? nullptr : &*found;
}

}  // namespace convoy::planner
