#include "convoy/planner/search/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "convoy/parallel/knobs.h"

namespace convoy::planner {

namespace {

constexpr double kPercent = 100;

/// Draws an index below `number`; the standard's distributions may differ between libraries.
size_t draw(std::mt19937_64& random, size_t number) {
  return static_cast<size_t>(random() % number);
}

/// Draws, now and then, a refinement that a search tries: fewer recomputed blocks, and a variant of
/// each knob.
void draw_more(Parallelism& split, const SearchSpace& space, int64_t num_blocks,
               std::mt19937_64& random) {
  constexpr size_t kSeldom = 4;
  const int64_t of_stage = num_blocks / split.ranks.pipeline - 1;
  const bool some = space.takes_recompute && !split.recompute && of_stage > 1;
  if (some && draw(random, kSeldom) == 0) {
    split.set_blocks_recomputed(
        1 + static_cast<int64_t>(draw(random, static_cast<size_t>(of_stage - 1))));
  }
  for (const auto& knob : parallel::knobs()) {
    if (knob.variants == nullptr) continue;
    const auto others = knob.variants(split, /*overlaps=*/true);
    if (!others.empty() && draw(random, kSeldom) == 0) split = others.front();
  }
}

}  // namespace

std::vector<Parallelism> draw_splits(const SearchSpace& space, int64_t num_blocks, uint64_t seed,
                                     size_t number) {
  std::map<std::string, std::vector<Parallelism>> families;
  for (const auto& split : splits_of(space)) families[split.family()].push_back(split);
  std::mt19937_64 random(seed);
  std::vector<Parallelism> out;
  while (out.size() < number && !families.empty()) {
    for (auto at = families.begin(); at != families.end() && out.size() < number;) {
      auto& rest = at->second;
      std::swap(rest[draw(random, rest.size())], rest.back());
      auto& split = out.emplace_back(rest.back());
      rest.pop_back();
      draw_more(split, space, num_blocks, random);
      at = rest.empty() ? families.erase(at) : std::next(at);
    }
  }
  return out;
}

std::string Errors::to_text() const {
  return fmt::format(
      "median error {:.1f} %, nine of ten within {:.1f} %, the worst {:+.1f} %, of {}",
      kPercent * median, kPercent * nine_of_ten, kPercent * worst, number);
}

std::string TimedSplit::off() const {
  return fmt::format("{:+.1f} %", kPercent * error());
}

Json to_json(const Errors& errors) {
  return {{"median", errors.median},
          {"nine_of_ten", errors.nine_of_ten},
          {"worst", errors.worst},
          {"number", errors.number}};
}

Errors errors_of(const std::vector<TimedSplit>& trials) {
  Errors out{.number = static_cast<int64_t>(trials.size())};
  if (trials.empty()) return out;
  std::vector<double> all;
  for (const auto& trial : trials) {
    all.push_back(std::abs(trial.error()));
    if (std::abs(trial.error()) > std::abs(out.worst)) out.worst = trial.error();
  }
  std::sort(all.begin(), all.end());
  constexpr double kNineOfTen = 0.9;
  const auto part = [&](double of) {  // the least error that so many are within
    const auto rank = static_cast<size_t>(std::ceil(of * static_cast<double>(all.size())));
    return all[std::max<size_t>(rank, 1) - 1];
  };
  out.median = part(0.5);
  out.nine_of_ten = part(kNineOfTen);
  return out;
}

double kendalls_tau(const std::vector<TimedSplit>& trials, double apart) {
  int64_t agree = 0, all = 0;
  for (size_t a = 0; a < trials.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const auto& [p, m] = trials[a];
      const auto& [q, n] = trials[b];
      if (std::max(m, n) <= std::min(m, n) * (1 + apart)) continue;
      ++all;
      agree += (p - q) * (m - n) > 0 ? 1 : -1;
    }
  }
  return all == 0 ? 1 : static_cast<double>(agree) / static_cast<double>(all);
}

double regret_of(const std::vector<TimedSplit>& trials) {
  if (trials.empty()) return 0;
  const auto& chosen =
      *std::min_element(trials.begin(), trials.end(),
                        [](const auto& a, const auto& b) { return a.predicted < b.predicted; });
  const auto& fastest =
      *std::min_element(trials.begin(), trials.end(),
                        [](const auto& a, const auto& b) { return a.measured < b.measured; });
  return chosen.measured / fastest.measured - 1;
}

}  // namespace convoy::planner
