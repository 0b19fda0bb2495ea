#include "convoy/plan/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "convoy/base/error.h"

namespace convoy::plan {

namespace {

constexpr double kRounding = 1e-9;

/// Numbers that divide another, ascending.
std::vector<int64_t> divisors(int64_t of) {
  std::vector<int64_t> out;
  for (int64_t d = 1; d <= of; ++d) {
    if (of % d == 0) out.push_back(d);
  }
  return out;
}

/// Of the rows of a data rank's step: those that a micro-batch may have.
std::vector<int64_t> rows_of(int64_t of_rank, int64_t most) {
  std::vector<int64_t> out;
  for (const int64_t rows : divisors(of_rank)) {
    const bool even = (rows & (rows - 1)) == 0;
    if (rows <= most && (even || rows == of_rank)) out.push_back(rows);
  }
  return out;
}

std::vector<schedule::PipelineSchedule> schedules_of(int stages, int64_t micro_batches) {
  using schedule::PipelineSchedule;
  if (stages == 1) return {PipelineSchedule::OneFOneB};
  if (micro_batches == 1) return {PipelineSchedule::OneFOneB, PipelineSchedule::ZeroBubble};
  return {PipelineSchedule::OneFOneB, PipelineSchedule::Interleaved, PipelineSchedule::ZeroBubble};
}

/// Over how many ranks ZeRO may share out a state: all, or those of a host.
std::vector<int64_t> shards_of(const Wishes& wishes, int64_t data, int64_t tensor, int64_t zero) {
  const int64_t here = wishes.ranks_per_host / tensor;
  if (zero == 0 || here < 2 || here >= data || data % here != 0) return {0};
  return {0, here};
}

/// In steps of a rounding error, so that equally fast ones are told by another thing.
double rounded(double seconds) {
  return std::floor(std::log(seconds) / kRounding);
}

bool is_faster(const Planned& a, const Planned& b) {
  return std::tuple(rounded(a.prediction.seconds), a.simplicity) <
         std::tuple(rounded(b.prediction.seconds), b.simplicity);
}

/// Tries splits and keeps what comes of it.
class Search {
 public:
  Search(const Numbers& numbers, const Cluster& cluster, const Wishes& wishes)
      : numbers_(numbers), cluster_(cluster), wishes_(wishes) {}

  void run(const std::vector<Split>& splits, const std::function<void(size_t, size_t)>& say) {
    std::vector<Bounded> all;
    for (size_t n = 0; n < splits.size(); ++n) {
      const auto& split = splits[n];
      try {
        all.push_back({split, least_seconds(numbers_, cluster_, split),
                       least_bytes(numbers_, wishes_.base, split), num_seen_++});
      } catch (const UsageError& error) {
        reasons_.insert(error.what());
      }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    std::map<std::string, std::vector<const Bounded*>> left_out;  // [family] the fastest first
    for (size_t n = 0; n < all.size(); ++n) {
      if (say) say(n, all.size());
      const auto& it = all[n];
      if (wishes_.all || !(is_hopeless(it) || (best_ && it.seconds > *best_ * (1 + kRounding)))) {
        try_out(it);
        continue;
      }
      ++found_.num_bounded;
      left_out[it.split.family()].push_back(&it);
    }
    for (const auto& [family, rest] : left_out) show(family, rest);
    refine(splits);
  }

  Found take() {
    std::stable_sort(found_.tried.begin(), found_.tried.end(), [](const auto& a, const auto& b) {
      const bool fits = a.prediction.fit != Fit::No, also = b.prediction.fit != Fit::No;
      if (fits != also) return fits;
      return fits ? is_faster(a, b) : a.prediction.memory.sum() < b.prediction.memory.sum();
    });
    found_.refused.assign(reasons_.begin(), reasons_.end());
    return std::move(found_);
  }

  bool fits() const { return best_.has_value(); }

 private:
  struct Bounded {
    Split split;
    double seconds = 0;
    int64_t bytes = 0;
    size_t simplicity = 0;
  };

  bool is_hopeless(const Bounded& it) const {
    return fit_of(numbers_, cluster_, it.bytes) == Fit::No;
  }

  /// Tries some more of a family of which nothing fits so far: the fastest that may fit, else the
  /// smallest, so that a person sees what it would take.
  void show(const std::string& family, std::vector<const Bounded*> rest) {
    const auto likely = [](const Bounded* it) {  // with the bubble of 1f1b
      const auto stages = static_cast<double>(it->split.pipeline);
      return it->seconds * (1 + (stages - 1) / static_cast<double>(it->split.micro_batches));
    };
    std::stable_sort(rest.begin(), rest.end(),
                     [&](const auto* a, const auto* b) { return likely(a) < likely(b); });
    int64_t tries = 4;
    for (const auto* it : rest) {
      if (fitting_.contains(family) || tries == 0) return;
      if (is_hopeless(*it)) continue;
      --tries;
      --found_.num_bounded;
      try_out(*it);
    }
    if (families_.contains(family)) return;
    --found_.num_bounded;
    try_out(**std::min_element(rest.begin(), rest.end(),
                               [](const auto* a, const auto* b) { return a->bytes < b->bytes; }));
  }

  /// Tries what may be better still: to recompute fewer blocks, and to gather further ahead.
  void refine(const std::vector<Split>& splits) {
    std::vector<Bounded> all;
    for (const auto& split : splits) {
      try {
        const auto add = [&](const Split& other, const Split& fastest) {
          all.push_back({other, least_seconds(numbers_, cluster_, fastest),
                         least_bytes(numbers_, wishes_.base, other), num_seen_++});
        };
        if (split.recompute) {
          auto none = split;
          none.recompute = false;
          add(split, none);
        }
        if (split.zero < 3 || cluster_.beside == 0) continue;
        for (const int64_t ahead : {2, 4}) {
          auto further = split;
          further.prefetch = ahead;
          if (ahead > wishes_.base.prefetch) add(further, further);
        }
      } catch (const UsageError&) {  // was told of before
      }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    for (const auto& it : all) {
      if (!wishes_.all && best_ && it.seconds > *best_ * (1 + kRounding)) break;
      if (!wishes_.all && is_hopeless(it)) continue;
      if (it.split.prefetch > 0) {
        try_out(it);
      } else {
        recompute_fewer(it);
      }
    }
  }

  /// Tries the fewest blocks that have to be recomputed, where some must be.
  void recompute_fewer(Bounded it) {
    auto& split = it.split;
    split.recompute = false;
    const auto fits = [&](int64_t blocks) {
      split.recomputed = blocks;
      return predict(numbers_, cluster_, wishes_.base, split).fit != Fit::No;
    };
    const auto blocks = static_cast<int64_t>(numbers_.model.blocks.size());
    int64_t bad = 0, good = (blocks + split.pipeline - 1) / split.pipeline;
    try {
      if (fits(0)) return;  // was tried without any
      while (good - bad > 1) {
        const int64_t middle = (bad + good) / 2;
        (fits(middle) ? good : bad) = middle;
      }
      split.recomputed = good;
      try_out(it);
    } catch (const UsageError&) {  // no stage has so many that can be
    }
  }

  void try_out(const Bounded& it) {
    const auto& split = it.split;
    try {
      const Planned planned{split, predict(numbers_, cluster_, wishes_.base, split), it.simplicity};
      if (planned.prediction.fit != Fit::No) {
        best_ = std::min(best_.value_or(planned.prediction.seconds), planned.prediction.seconds);
        fitting_.insert(split.family());
      }
      families_.insert(split.family());
      found_.tried.push_back(planned);
    } catch (const UsageError& error) {
      reasons_.insert(error.what());
    }
  }

  const Numbers& numbers_;
  const Cluster& cluster_;
  const Wishes& wishes_;
  std::optional<double> best_;
  size_t num_seen_ = 0;
  std::set<std::string> reasons_, families_, fitting_;
  Found found_;
};

}  // namespace

std::vector<Split> splits_of(const Wishes& wishes) {
  std::vector<Split> out;
  for (const int64_t tensor : divisors(wishes.num_ranks)) {
    for (const int64_t pipeline : divisors(wishes.num_ranks / tensor)) {
      const int64_t data = wishes.num_ranks / tensor / pipeline;
      if (wishes.global_batch % data != 0) continue;
      const int64_t of_rank = wishes.global_batch / data;
      for (const int64_t rows : rows_of(of_rank, wishes.most_rows)) {
        // Stages 2 and 3 with a pipeline reduce or gather for each micro-batch: the seeds advise
        // against it, and it never won a trial here.
        const int64_t most = data == 1 ? 0 : pipeline > 1 ? 1 : 3;
        for (int64_t zero = 0; zero <= most; ++zero) {
          for (const int64_t shard : shards_of(wishes, data, tensor, zero)) {
            for (const bool recompute : {false, true}) {
              if (recompute && !wishes.takes_recompute) continue;
              for (const auto schedule : schedules_of(static_cast<int>(pipeline), of_rank / rows)) {
                out.push_back({.pipeline = static_cast<int>(pipeline),
                               .data = static_cast<int>(data),
                               .tensor = static_cast<int>(tensor),
                               .rows = rows,
                               .micro_batches = of_rank / rows,
                               .zero = zero,
                               .recompute = recompute,
                               .schedule = schedule,
                               .shard = shard});
              }
            }
          }
        }
      }
    }
  }
  if (out.empty()) {
    fail<UsageError>("plan",
                     "a step of {} rows does not divide over {} ranks in any way; try a "
                     "batch that {} divides",
                     wishes.global_batch, wishes.num_ranks, wishes.num_ranks);
  }
  return out;
}

Found search(const Numbers& numbers, const Cluster& cluster, const Wishes& wishes,
             const std::function<void(size_t, size_t)>& say) {
  const auto splits = splits_of(wishes);
  Search one(numbers, cluster, wishes);
  one.run(splits, say);
  for (const auto place : wishes.offload) {
    if (one.fits()) break;
    auto offloaded = splits;
    for (auto& split : offloaded) split.optimizer = place;
    one.run(offloaded, say);
  }
  return one.take();
}

const Planned* Found::best() const {
  const bool fits = !tried.empty() && tried.front().prediction.fit != Fit::No;
  return fits ? &tried.front() : nullptr;
}

std::vector<const Planned*> Found::front() const {
  std::vector<const Planned*> out;
  for (const auto& planned : tried) {
    if (planned.prediction.fit == Fit::No) break;
    const bool smaller =
        out.empty() || planned.prediction.memory.sum() < out.back()->prediction.memory.sum();
    if (smaller) out.push_back(&planned);
  }
  return out;
}

std::vector<const Planned*> Found::of_families() const {
  std::vector<const Planned*> out;
  std::set<std::string> names;
  for (const auto& planned : tried) {
    if (names.insert(planned.split.family()).second) out.push_back(&planned);
  }
  return out;
}

const Planned* Found::smallest() const {
  const auto found = std::min_element(tried.begin(), tried.end(), [](const auto& a, const auto& b) {
    return a.prediction.memory.sum() < b.prediction.memory.sum();
  });
  return found == tried.end() ? nullptr : &*found;
}

}  // namespace convoy::plan
