#include <algorithm>
#include <deque>

#include "convoy/parallel/pipeline/best.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::parallel {

namespace {

using enum ActionKind;

/// Writer of an order, action by action; weight halves follow in the order of the input halves.
class Writer {
 public:
  explicit Writer(int64_t num_micro_batches) : num_micro_batches_(num_micro_batches) {}

  void forward(int64_t v) { add({v, Forward, forwards_[v]++}); }
  void backward(int64_t v) {
    const int64_t m = backwards_[v]++;
    add({v, BackwardInput, m});
    if (m < num_micro_batches_) weights_.push_back({v, BackwardWeight, m});
  }
  void weight() {
    if (weights_.empty()) return;
    add(weights_.front());
    weights_.pop_front();
  }
  int64_t forwards(int64_t v) { return forwards_[v]; }
  int64_t backwards(int64_t v) { return backwards_[v]; }
  std::vector<Action> end() {
    while (!weights_.empty()) weight();
    return std::move(actions_);
  }

 private:
  void add(const Action& action) {
    if (action.micro_batch < num_micro_batches_) actions_.push_back(action);
  }

  int64_t num_micro_batches_;
  std::map<int64_t, int64_t> forwards_, backwards_;  // [virtual stage]
  std::deque<Action> weights_;
  std::vector<Action> actions_;
};

/// Order of ZB-H1: 1f1b in which rank s defers s weight halves, so that all ranks keep as much as
/// the first.
std::vector<Action> one_virtual_stage(const Pipe& pipe, int rank) {
  const int64_t v = pipe.virtual_stages_of(rank).front(), m = pipe.num_micro_batches;
  const int64_t ahead = pipe.num_ranks() - 1 - rank;
  Writer out(m);
  for (int64_t n = 0; n < std::min(ahead, m); ++n) out.forward(v);
  for (int64_t n = 0; n < m; ++n) {
    if (n + ahead < m) out.forward(v);
    out.backward(v);
    if (n >= rank) out.weight();
  }
  return out.end();
}

/// Order of ZB-V: a rank has the virtual stages `down` and, on the way back, `up`.
std::vector<Action> in_v(const Pipe& pipe, int rank) {
  const int64_t down = rank, up = pipe.num_virtual_stages() - 1 - rank;
  const int64_t ranks = pipe.num_ranks();
  // The pattern needs this many micro-batches to have no gaps; actions of those beyond the real
  // ones are left out.
  const int64_t m = std::max(pipe.num_micro_batches, 2 * ranks - 1);
  Writer out(pipe.num_micro_batches);
  const auto both = [&out](int64_t v) {
    out.backward(v);
    out.weight();
  };
  for (int64_t n = 0; n < 2 * (ranks - rank) - 1; ++n) out.forward(down);
  for (int64_t n = 0; n < rank; ++n) {
    out.forward(up);
    out.forward(down);
  }
  for (int64_t n = 0; n < ranks - rank; ++n) {
    out.forward(up);
    both(up);
  }
  while (out.forwards(up) < out.forwards(down) || out.forwards(down) < m) {
    if (out.forwards(down) < m) out.forward(down);
    both(down);
    out.forward(up);
    both(up);
  }
  for (int64_t n = 0; n < rank; ++n) {
    out.backward(down);
    out.backward(up);
  }
  for (int64_t n = 0; n < ranks - rank; ++n) both(down);
  return out.end();
}

Orders zero_bubble(const Pipe& pipe) {
  const int ranks = pipe.num_ranks();
  const bool v = pipe.is_v();
  Orders out;
  if (!v && pipe.num_virtual_stages() > ranks) {
    auto alike = pipe;  // an order that does not depend on what blocks cost
    alike.costs = equal_costs(pipe.num_virtual_stages(), ranks);
    alike.memory = 0;
    const double memory = memory_bound(alike);
    Best best(alike, memory);
    for (const auto& rules : list_rules(alike, true, memory)) {
      best.try_out(list_schedule(alike, rules));
    }
    out = best.take();
  } else {
    for (int rank = 0; rank < ranks; ++rank) {
      out.push_back(v ? in_v(pipe, rank) : one_virtual_stage(pipe, rank));
    }
  }
  return joined(pipe, out);
}

}  // namespace

const ScheduleEntry kZeroBubble{
    .name = "zero_bubble",
    .help = "backward split into input and weight gradients to fill the bubble",
    .orders = zero_bubble,
    .interleaved = true,
    .halves = true,
    .either_placement = true,
    .goes_by_costs = never_by_costs};

}  // namespace convoy::parallel
