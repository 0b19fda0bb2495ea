#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/parallel/pipeline/board.h"
#include "convoy/parallel/pipeline/builders.h"

namespace convoy::parallel {

namespace {

constexpr double kNoTime = std::numeric_limits<double>::infinity();

class ListScheduler {
 public:
  ListScheduler(const Pipe& pipe, const ListRules& rules)
      : pipe_(pipe),
        rules_(rules),
        board_(pipe),
        orders_(static_cast<size_t>(pipe.num_ranks())),
        choices_(orders_.size()),
        begins_(orders_.size(), kNoTime),
        changed_(orders_.size()) {
    std::iota(changed_.begin(), changed_.end(), size_t{0});
    for (int rank = 0; rank < pipe.num_ranks(); ++rank) {
      auto& it = states_.emplace_back();
      for (const int64_t v : pipe.virtual_stages_of(rank)) it.own.push_back({v});
    }
  }

  Orders run() {
    for (;;) {
      for (const size_t r : changed_) choose(r);
      changed_.clear();
      const auto first = std::min_element(begins_.begin(), begins_.end());
      if (*first == kNoTime) break;
      const auto r = static_cast<size_t>(first - begins_.begin());
      take(r, choices_[r]);
    }
    for (const auto& it : states_) {
      for (const auto& own : it.own) {
        internal_check(own.backward == pipe_.num_micro_batches, "parallel",
                       "virtual stage {} finds no room", own.v);
      }
    }
    return std::move(orders_);
  }

 private:
  /// Virtual stage of a rank, with the numbers of forwards and backwards that have begun there.
  struct Own {
    int64_t v = 0;
    int64_t forward = 0, backward = 0;
  };
  struct State {
    std::vector<Own> own;
    std::deque<Action> weights;  // halves put off, in their order
    double held = 0;             // bytes
  };

  /// Largest memory of a micro-batch at virtual stage `v`: its activations or, with halves, its
  /// deferred weight gradients.
  double size(int64_t v) const {
    const double kept = board_.kept_by(v);
    return rules_.halves ? std::max(kept, board_.put_off_by(v)) : kept;
  }

  /// Whether there is memory for a forward, and enough is left for all begun micro-batches to end,
  /// the oldest first (Dijkstra's banker's algorithm).
  bool fits(const State& it, const Own& next) const {
    double left = rules_.memory * (1 + 1e-9) - it.held - size(next.v);
    if (left < 0) return false;
    for (const auto& half : it.weights) left += board_.put_off_by(half.virtual_stage);
    int64_t oldest = pipe_.num_micro_batches, newest = 0;
    double whole = 0;
    for (const auto& own : it.own) {
      oldest = std::min(oldest, own.backward);
      newest = std::max(newest, own.forward);
      whole += size(own.v);
    }
    for (int64_t m = oldest; m <= newest && left < whole; ++m) {
      double needed = 0, given_back = 0;
      for (const auto& own : it.own) {
        const bool forward = m < own.forward || (&own == &next && m == own.forward);
        if (!forward) needed += size(own.v);
        if (forward && m >= own.backward) given_back += size(own.v);
      }
      if (needed > left) return false;
      left += given_back;
    }
    return true;
  }

  /// Priority among actions that could begin at the same time: the smallest comes first.
  using Rank = std::tuple<int64_t, int64_t, int64_t, int64_t>;

  Rank rank_of(const Action& action) const {
    const auto& [v, kind, m] = action;
    const bool forward = kind == ActionKind::Forward;
    const int64_t first = forward == rules_.forward_first ? 0 : 1;
    const int64_t group = m / rules_.group;
    if (forward && rules_.deep_first) return {first, -v, m, 0};
    return {first, group, forward ? v : -v, m};
  }

  /// Chooses the next action of a rank, and its time; kNoTime: there is none.
  void choose(size_t r) {
    const auto& it = states_[r];
    const double now = board_.time(static_cast<int>(r));
    const auto backward = rules_.halves ? ActionKind::BackwardInput : ActionKind::Backward;
    auto& best = choices_[r];
    double best_begin = kNoTime;
    for (const auto& own : it.own) {
      for (const bool forward : {true, false}) {
        const int64_t m = forward ? own.forward : own.backward;
        if (m == pipe_.num_micro_batches || (!forward && m >= own.forward)) continue;
        const Action action{own.v, forward ? ActionKind::Forward : backward, m};
        const double ready = board_.ready(action);
        const double begin = std::max(now, ready);
        if (ready == kNoTime || begin > best_begin) continue;
        if (begin == best_begin && rank_of(best) <= rank_of(action)) continue;
        if (forward && !fits(it, own)) continue;
        best = action;
        best_begin = begin;
      }
    }
    begins_[r] = best_begin;
    if (it.weights.empty()) return;
    const auto& weight = it.weights.front();
    const double gap = best_begin - now;  // kNoTime: nothing else could be done
    if (gap > 0 && gap >= rules_.patience * board_.takes(weight)) {
      best = weight;
      begins_[r] = now;
    }
  }

  void take(size_t r, const Action action) {
    auto& it = states_[r];
    const auto& [v, kind, m] = action;
    for (const int64_t near : {v - 1, v, v + 1}) {
      if (near < 0 || near == pipe_.num_virtual_stages()) continue;
      const auto rank = static_cast<size_t>(pipe_.rank_of[static_cast<size_t>(near)]);
      if (std::find(changed_.begin(), changed_.end(), rank) == changed_.end()) {
        changed_.push_back(rank);
      }
    }
    board_.run(action);
    orders_[r].push_back(action);
    const double put_off = board_.put_off_by(v);
    if (kind == ActionKind::BackwardWeight) {
      it.weights.pop_front();
      it.held -= put_off;
      return;
    }
    auto& own = *std::find_if(it.own.begin(), it.own.end(),
                              [&](const Own& each) { return each.v == action.virtual_stage; });
    if (kind == ActionKind::Forward) {
      ++own.forward;
      it.held += size(v);
      return;
    }
    ++own.backward;
    it.held -= size(v);
    if (kind == ActionKind::Backward) return;
    it.held += put_off;
    it.weights.push_back({v, ActionKind::BackwardWeight, m});
  }

  const Pipe& pipe_;
  ListRules rules_;
  Board board_;
  std::vector<State> states_;
  Orders orders_;
  std::vector<Action> choices_;  // [rank]
  std::vector<double> begins_;   // [rank] of its choice
  std::vector<size_t> changed_;  // ranks, since their choice
};

/// Memory by rank that one micro-batch keeps.
std::vector<double> kept_of_one(const Pipe& pipe) {
  const auto costs = pipe.all_costs();
  std::vector<double> out(static_cast<size_t>(pipe.num_ranks()));
  for (size_t v = 0; v < pipe.rank_of.size(); ++v) {
    out[static_cast<size_t>(pipe.rank_of[v])] += costs.kept[v];
  }
  return out;
}

}  // namespace

Orders list_schedule(const Pipe& pipe, const ListRules& rules) {
  return ListScheduler(pipe, rules).run();
}

std::vector<ListRules> list_rules(const Pipe& pipe, bool halves, double memory) {
  std::vector<ListRules> out;
  for (const bool forward_first : {false, true}) {
    for (const double patience : {0.0, 0.5, 1.0}) {
      if (!halves && patience > 0) continue;
      ListRules rules{.halves = halves,
                      .deep_first = true,
                      .group = pipe.num_ranks(),
                      .forward_first = forward_first,
                      .patience = patience,
                      .memory = memory};
      out.push_back(rules);
      rules.deep_first = false;
      out.push_back(rules);
      rules.group = 1;
      out.push_back(rules);
    }
  }
  return out;
}

double smallest_memory(const Pipe& pipe) {
  const auto kept = kept_of_one(pipe);
  return *std::max_element(kept.begin(), kept.end());
}

double memory_bound(const Pipe& pipe) {
  if (pipe.memory > 0) return pipe.memory;
  const auto kept = kept_of_one(pipe);
  double out = 0;
  for (size_t s = 0; s < kept.size(); ++s) {
    const auto ahead = static_cast<int64_t>(kept.size() - s);
    out = std::max(out, static_cast<double>(std::min(ahead, pipe.num_micro_batches)) * kept[s]);
  }
  return out;
}

}  // namespace convoy::parallel
