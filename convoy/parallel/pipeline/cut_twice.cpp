#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "convoy/parallel/pipeline/cut_search.h"

namespace convoy::parallel {

namespace {

constexpr double kUncut = std::numeric_limits<double>::infinity();
/// Largest number of pairs of ranges to look at: 80 equal blocks have two million, a thousand far
/// more.
constexpr int64_t kMostLooks = 20'000'000;
/// Quantity to minimise over the two block ranges of each stage.
enum class Aim { DearestStage, DearestStretch, Squares };

/// Dynamic program that adds one stage, with two ranges of blocks, after the other. In a loop both
/// ranges go on from those of the stage before; in a V the first goes on, and the second ends where
/// that one's begins.
class Pairs {
 public:
  Pairs(const CutProblem& problem, double stage, double stretch)
      : problem_(problem),
        n_(problem.num_blocks()),
        stages_(problem.num_stages()),
        stage_((1 + kCutRounding) * stage),
        stretch_((1 + kCutRounding) * stretch) {}

  /// Least value of the aim, with the ends of such a cut; none where `looks` are used up before.
  std::pair<double, Ends> run(Aim aim, int64_t& looks) {
    aim_ = aim;
    looks_ = &looks;
    least_ = kUncut;
    if (problem_.placement() == Placement::V) {
      middle_ = n_;
      play(0, n_);
      for (size_t a = stages_; a + stages_ <= n_ && looks > 0; ++a) take(a, a);
    } else {
      for (middle_ = stages_; middle_ + stages_ <= n_ && looks > 0; ++middle_) {
        play(0, middle_);
        take(middle_, n_);
      }
    }
    if (looks <= 0) return {kUncut, {}};
    return {least_, ends_};
  }

 private:
  struct Place {
    double all = kUncut;
    uint16_t from_a = 0, from_b = 0;
  };
  bool is_v() const { return problem_.placement() == Placement::V; }
  size_t at(size_t a, size_t b) const { return a * (n_ + 1) + b; }

  double added(double all, double first, double second) const {
    if (aim_ == Aim::Squares) return all + first * first + second * second;
    return std::max(all, aim_ == Aim::DearestStage ? first + second : std::max(first, second));
  }

  /// Extends all cuts whose first stage has ranges that begin at `a` and `b`.
  void play(size_t a, size_t b) {
    places_.resize(stages_ + 1);
    reached_.resize(stages_ + 1);
    for (auto& places : places_) places.resize((n_ + 1) * (n_ + 1));
    places_[0][at(a, b)].all = 0;
    reached_[0].emplace_back(a, b);
    for (size_t s = 0; s < stages_; ++s) {
      for (const auto& [x, y] : reached_[s]) {
        if (*looks_ <= 0) return;
        extend(s, x, y);
      }
    }
  }

  /// Extends the cuts of the first `s` stages, which end at `a` and `b`, by a stage.
  void extend(size_t s, size_t a, size_t b) {
    const size_t left = stages_ - s - 1;  // stages after this one
    const double all = places_[s][at(a, b)].all;
    const size_t last_a = (is_v() ? b : middle_) - left;
    for (size_t i = a + 1; i <= last_a; ++i) {
      const double first = problem_.cost(a, i);
      if (first > stretch_ || first > stage_) break;
      for (size_t length = 1;; ++length) {
        const size_t j = is_v() ? b - length : b + length;
        if (is_v() ? (b < length || j < i + 2 * left) : j + left > n_) break;
        const double second = is_v() ? problem_.cost(j, b) : problem_.cost(b, j);
        if (second > stretch_ || first + second > stage_) break;
        --*looks_;
        // The stages that are left must hold what is left.
        const double rest =
            is_v() ? problem_.cost(i, j) : problem_.cost(i, middle_) + problem_.cost(j, n_);
        if (rest > static_cast<double>(left) * stage_) continue;
        auto& place = places_[s + 1][at(i, j)];
        const double with = added(all, first, second);
        if (with >= place.all) continue;
        if (place.all == kUncut) reached_[s + 1].emplace_back(i, j);
        place = {with, static_cast<uint16_t>(a), static_cast<uint16_t>(b)};
      }
    }
  }

  /// Keeps a complete cut if it is the best yet, and clears the table of this middle.
  void take(size_t a, size_t b) {
    const double all = places_[stages_][at(a, b)].all;
    if (all < least_) {
      least_ = all;
      note(a, b);
    }
    if (!is_v()) forget();
  }

  void note(size_t a, size_t b) {
    ends_.assign(2 * stages_, 0);
    for (size_t s = stages_; s > 0; --s) {
      const auto& place = places_[s][at(a, b)];
      ends_[s - 1] = a;
      if (is_v()) {
        ends_[2 * stages_ - s] = place.from_b;
      } else {
        ends_[stages_ + s - 1] = b;
      }
      a = place.from_a;
      b = place.from_b;
    }
  }

  void forget() {
    for (size_t s = 0; s <= stages_; ++s) {
      for (const auto& [a, b] : reached_[s]) places_[s][at(a, b)] = {};
      reached_[s].clear();
    }
  }

  const CutProblem& problem_;
  size_t n_, stages_;
  double stage_, stretch_;  // what one may cost
  Aim aim_ = Aim::Squares;
  int64_t* looks_ = nullptr;
  size_t middle_ = 0;                       // where the second stretches begin, in a loop
  std::vector<std::vector<Place>> places_;  // [stages so far][ends of both]
  std::vector<std::vector<std::pair<size_t, size_t>>> reached_;  // [stages so far] ends of both
  double least_ = kUncut;
  Ends ends_;
};

}  // namespace

Ends cut_twice(const CutProblem& problem, double limit) {
  int64_t looks = kMostLooks;
  const double stage = Pairs(problem, limit, limit).run(Aim::DearestStage, looks).first;
  if (looks <= 0) return {};
  const double stretch = Pairs(problem, stage, stage).run(Aim::DearestStretch, looks).first;
  if (looks <= 0) return {};
  return Pairs(problem, stage, stretch).run(Aim::Squares, looks).second;
}

}  // namespace convoy::parallel
