#include "convoy/schedule/run/simulate.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::schedule {

namespace {

class Simulation {
 public:
  Simulation(const std::vector<RankProgram>& ranks, const Costs& costs)
      : ranks_(ranks), costs_(costs), at_(ranks.size()), time_(ranks.size()), kept_(ranks.size()) {
    timeline_.ranks.resize(ranks.size());
    timeline_.memory.resize(ranks.size());
    for (const auto& rank : ranks) {
      recomputed_.emplace_back();
      for (const auto& i : rank.program) {
        if (i.op == Op::Recompute) recomputed_.back().insert(i.block);
      }
    }
  }

  Timeline run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        while (step(r)) moved = true;
      }
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      internal_check(at_[r] == ranks_[r].program.size(), "schedule", "rank {} hangs", r);
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
      const auto crossing = message(r, i);
      const auto& takes = i.op == Op::Send ? costs_.send : costs_.send_grad;
      sent_[crossing] = wires_[{std::get<0>(crossing), std::get<1>(crossing)}].send(
          time_[r], takes.empty() ? 0 : takes.at(static_cast<size_t>(i.block)));
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
    const auto b = static_cast<size_t>(i.block);
    const bool again = recomputed_[r].contains(i.block);
    const double begin = time_[r];
    const auto of = [b](const std::vector<double>& bytes) {
      return bytes.empty() ? 0 : bytes.at(b);
    };
    const auto& put_off = costs_.put_off.empty() ? costs_.kept : costs_.put_off;
    switch (i.op) {
      case Op::Forward:
        keep(r, again ? of(costs_.inputs) : of(costs_.kept));
        time_[r] += costs_.forward.at(b);
        break;
      case Op::Recompute:
        keep(r, of(costs_.kept) - of(costs_.inputs));
        time_[r] += costs_.forward.at(b);
        break;
      case Op::Backward:
        time_[r] += costs_.backward.at(b);
        keep(r, -of(costs_.kept));
        break;
      case Op::BackwardInput:
        time_[r] += costs_.input_half(b);
        keep(r, of(put_off) - of(costs_.kept));
        break;
      case Op::BackwardWeight:
        time_[r] += costs_.weight_half(b);
        keep(r, -of(put_off));
        break;
      default:
        return;
    }
    timeline_.ranks[r].push_back({i, begin, time_[r]});
  }

  void keep(size_t r, double more) {
    if (more == 0) return;
    kept_[r] += more;
    timeline_.memory[r].emplace_back(time_[r], kept_[r]);
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
  std::vector<double> time_, kept_;
  std::vector<std::set<int64_t>> recomputed_;  // [rank] blocks
  std::map<std::pair<int, int>, Wire> wires_;  // [from, to]
  std::map<Message, double> sent_;             // when it is there
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

double Timeline::peak(size_t rank) const {
  double most = 0;
  for (const auto& [time, bytes] : memory[rank]) most = std::max(most, bytes);
  return most;
}

Timeline simulate(const std::vector<RankProgram>& ranks, const Costs& costs) {
  return Simulation(ranks, costs).run();
}

}  // namespace convoy::schedule
