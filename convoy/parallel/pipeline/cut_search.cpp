#include "convoy/parallel/pipeline/cut_search.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace convoy::parallel {

namespace {

constexpr double kNoCut = std::numeric_limits<double>::infinity();
double room(double limit) {
  return limit * (1 + kCutRounding);
}

/// Ends of ranges of blocks with a cost of at most `limit` each, for which `add` over all costs is
/// least.
template <class Add>
std::pair<double, Ends> cut_by(const CutProblem& problem, double limit, const Add& add) {
  const size_t n = problem.num_blocks(), k = problem.num_stretches();
  std::vector<std::vector<double>> best(k + 1, std::vector<double>(n + 1, kNoCut));
  std::vector<std::vector<size_t>> from(k + 1, std::vector<size_t>(n + 1));
  best[0][0] = 0;
  for (size_t s = 1; s <= k; ++s) {
    for (size_t end = s; end <= n; ++end) {
      for (size_t begin = end; begin-- >= s;) {
        const double cost = problem.cost(begin, end);
        // Longer stretches cost more still.
        if (cost > room(limit) || add(0, cost) > best[s][end]) break;
        const double all = add(best[s - 1][begin], cost);
        if (all >= best[s][end]) continue;
        best[s][end] = all;
        from[s][end] = begin;
      }
    }
  }
  Ends ends(k);
  size_t end = n;
  for (size_t s = k; s > 0; --s) {
    ends[s - 1] = end;
    end = from[s][end];
  }
  return {best[k][n], ends};
}

/// Costs of the stages, the largest first.
std::vector<double> stage_costs(const CutProblem& problem, const Ends& ends) {
  std::vector<double> out(problem.num_stages());
  size_t begin = 0;
  for (size_t s = 0; s < ends.size(); ++s) {
    out[problem.stage_of(s)] += problem.cost(begin, ends[s]);
    begin = ends[s];
  }
  std::sort(out.begin(), out.end(), std::greater<>());
  return out;
}

}  // namespace

CutProblem::CutProblem(const std::vector<double>& costs, int num_stages, int virtual_stages,
                       Placement placement)
    : before_(1),
      num_stages_(static_cast<size_t>(num_stages)),
      virtual_stages_(static_cast<size_t>(virtual_stages)),
      placement_(placement) {
  for (const double cost : costs) before_.push_back(before_.back() + cost);
}

size_t CutProblem::stage_of(size_t stretch) const {
  if (placement_ == Placement::V) return std::min(stretch, 2 * num_stages_ - 1 - stretch);
  return stretch % num_stages_;
}

CutScore score(const CutProblem& problem, const Ends& ends) {
  double stretch = 0, squares = 0;
  size_t begin = 0;
  for (const size_t end : ends) {
    const double cost = problem.cost(begin, end);
    stretch = std::max(stretch, cost);
    squares += cost * cost;
    begin = end;
  }
  return {stage_costs(problem, ends).front(), stretch, squares};
}

bool is_better(const CutScore& a, const CutScore& b) {
  const auto compare = [](double x, double y) {
    return x < y * (1 - kCutRounding) ? -1 : x > y * (1 + kCutRounding) ? 1 : 0;
  };
  const int stage = compare(std::get<0>(a), std::get<0>(b));
  const int stretch = compare(std::get<1>(a), std::get<1>(b));
  if (stage != 0) return stage < 0;
  return stretch != 0 ? stretch < 0 : compare(std::get<2>(a), std::get<2>(b)) < 0;
}

Ends cut_once(const CutProblem& problem) {
  const auto dearest = [](double all, double cost) { return std::max(all, cost); };
  const auto squares = [](double all, double cost) { return all + cost * cost; };
  const double limit = cut_by(problem, kNoCut, dearest).first;
  return cut_by(problem, limit, squares).second;
}

Ends improved(const CutProblem& problem, Ends ends) {
  auto best = std::pair{stage_costs(problem, ends), score(problem, ends)};
  for (bool better = true; better;) {
    better = false;
    const Ends start = ends;
    // All borders from one to another move by a block: it goes from one stretch to a far one.
    for (size_t from = 0; from + 1 < start.size(); ++from) {
      for (const int by : {1, -1}) {
        Ends moved = start;
        for (size_t to = from; to + 1 < start.size(); ++to) {
          moved[to] += static_cast<size_t>(by);
          const size_t begin = from == 0 ? 0 : moved[from - 1];
          if (moved[from] <= begin) break;
          if (moved[to] >= moved[to + 1]) continue;
          auto now = std::pair{stage_costs(problem, moved), score(problem, moved)};
          const bool less = now.first < best.first ||
                            (now.first == best.first && is_better(now.second, best.second));
          if (!less || is_better(best.second, now.second)) continue;
          best = std::move(now);
          ends = moved;
          better = true;
        }
      }
    }
  }
  return ends;
}

namespace {

/// Branch-and-bound search over cuts, one range of blocks after the other.
class Search {
 public:
  Search(const CutProblem& problem, const Ends& ends)
      : problem_(problem), best_(ends), best_score_(score(problem, ends)) {
    stages_.resize(problem.num_stages());
  }

  Ends run() {
    go(0, 0, {problem_.total() / static_cast<double>(problem_.num_stages()), 0, 0});
    return best_;
  }

 private:
  static constexpr int64_t kLooks = 2'000'000;

  void go(size_t stretch, size_t begin, const CutScore& so_far) {
    const size_t left = problem_.num_stretches() - stretch;
    if (left == 0) {
      if (!is_better(so_far, best_score_)) return;
      best_score_ = score(problem_, ends_);
      best_ = ends_;
      return;
    }
    const size_t n = problem_.num_blocks();
    auto& stage = stages_[problem_.stage_of(stretch)];
    for (size_t end = left == 1 ? n : begin + 1; end + left <= n + 1; ++end) {
      if (++looks_ > kLooks) return;
      const double cost = problem_.cost(begin, end);
      const double rest = problem_.cost(end, n);
      const auto& [dearest, longest, squares] = so_far;
      CutScore with{std::max(dearest, stage + cost), std::max(longest, cost),
                    squares + cost * cost};
      if (std::get<0>(with) > room(std::get<0>(best_score_))) break;  // more blocks cost more yet
      auto at_least = with;
      if (left > 1) std::get<2>(at_least) += rest * rest / static_cast<double>(left - 1);
      if (!is_better(at_least, best_score_)) continue;
      stage += cost;
      ends_.push_back(end);
      go(stretch + 1, end, with);
      ends_.pop_back();
      stage -= cost;
    }
  }

  const CutProblem& problem_;
  Ends best_;
  CutScore best_score_;
  std::vector<double> stages_;  // what they cost so far
  Ends ends_;
  int64_t looks_ = 0;
};

}  // namespace

Ends searched(const CutProblem& problem, const Ends& ends) {
  return Search(problem, ends).run();
}

}  // namespace convoy::parallel
