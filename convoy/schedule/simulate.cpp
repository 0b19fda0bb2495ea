#include "convoy/schedule/simulate.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::schedule {

namespace {

class Simulation {
 public:
  Simulation(const std::vector<RankProgram>& ranks, const Costs& costs)
      : ranks_(ranks), costs_(costs), at_(ranks.size()), time_(ranks.size()) {
    timeline_.ranks.resize(ranks.size());
  }

  Timeline run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        while (step(r)) moved = true;
      }
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      internal_check(at_[r] == ranks_[r].program.size(), "schedule", "rank {} stands still", r);
      timeline_.length = std::max(timeline_.length, time_[r]);
    }
    return std::move(timeline_);
  }

 private:
  /// What travels, from which rank to which.
  using Message = std::tuple<int, int, bool, int64_t, int64_t>;

  Message message(size_t r, const Instruction& i) const {
    auto from = static_cast<int>(r), to = ranks_[r].pipeline.at(static_cast<size_t>(i.peer));
    if (receives(i.op)) std::swap(from, to);
    const bool gradient = i.op == Op::SendGrad || i.op == Op::ReceiveGrad;
    return {from, to, gradient, i.block, i.micro_batch};
  }

  /// Whether rank `r` got on.
  bool step(size_t r) {
    const auto& program = ranks_[r].program;
    if (at_[r] == program.size()) return false;
    const auto& i = program[at_[r]];
    if (sends(i.op)) {
      sent_[message(r, i)] = time_[r];
    } else if (receives(i.op)) {
      if (!receive(r, i)) return false;
    } else if (i.op == Op::ReduceLoss) {
      if (!meet(r)) return false;
    } else {
      compute(r, i);
    }
    ++at_[r];
    return true;
  }

  void compute(size_t r, const Instruction& i) {
    if (i.op != Op::Forward && i.op != Op::Recompute && i.op != Op::Backward) return;
    const auto& costs = i.op == Op::Backward ? costs_.backward : costs_.forward;
    const double begin = time_[r];
    time_[r] += costs.at(static_cast<size_t>(i.block));
    timeline_.ranks[r].push_back({i, begin, time_[r]});
  }

  bool receive(size_t r, const Instruction& i) {
    const auto found = sent_.find(message(r, i));
    if (found == sent_.end()) return false;
    time_[r] = std::max(time_[r], found->second);
    return true;
  }

  /// The end of the step's sums.
  bool meet(size_t r) {
    for (size_t other = 0; other < ranks_.size(); ++other) {
      const auto& program = ranks_[other].program;
      if (at_[other] < program.size() && program[at_[other]].op != Op::ReduceLoss && !met_) {
        return false;
      }
    }
    met_ = true;
    time_[r] = *std::max_element(time_.begin(), time_.end());
    return true;
  }

  const std::vector<RankProgram>& ranks_;
  const Costs& costs_;
  std::vector<size_t> at_;
  std::vector<double> time_;
  std::map<Message, double> sent_;  // when
  bool met_ = false;
  Timeline timeline_;
};

}  // namespace

double Timeline::idle() const {
  double busy = 0;
  for (const auto& rank : ranks) {
    for (const auto& span : rank) busy += span.end - span.begin;
  }
  const double all = length * static_cast<double>(ranks.size());
  return all > 0 ? 1 - busy / all : 0;
}

Timeline simulate(const std::vector<RankProgram>& ranks, const Costs& costs) {
  return Simulation(ranks, costs).run();
}

}  // namespace convoy::schedule
