#include "convoy/parallel/program/simulate.h"

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/parallel/program/overlapped_work.h"

namespace convoy::parallel {

namespace {

class Simulation {
 public:
  Simulation(const std::vector<RankProgram>& ranks, const Costs& costs,
             const std::vector<StepTimes>& times, int num_steps, Detail detail,
             const EndOfSums& end_of_sums)
      : ranks_(ranks),
        costs_(costs),
        times_(times),
        num_steps_(num_steps),
        draws_(detail == Detail::Timeline),
        end_of_sums_(end_of_sums),
        states_(ranks.size()) {
    static const StepTimes kNone;
    timeline_.ranks.resize(ranks.size());
    timeline_.memory.resize(ranks.size());
    for (auto* all : {&timeline_.computing, &timeline_.held_up, &timeline_.updates}) {
      all->resize(ranks.size());
    }
    beside_.reserve(ranks.size());
    for (size_t r = 0; r < ranks.size(); ++r) {
      beside_.emplace_back(ranks[r].layout, times.empty() ? kNone : times.at(r));
      auto& state = states_[r];
      state.recomputed.resize(costs.forward.size());
      const auto& pipeline = ranks[r].pipeline;
      const auto own = std::find(pipeline.begin(), pipeline.end(), static_cast<int>(r));
      state.stage = static_cast<size_t>(own - pipeline.begin());
      state.sends_to.resize(pipeline.size());
      for (const auto& i : ranks[r].program) {
        if (i.op == Op::Recompute) state.recomputed[static_cast<size_t>(i.block)] = true;
      }
    }
  }

  Timeline run() {
    for (step_ = 0; step_ < num_steps_; ++step_) play_step();
    return std::move(timeline_);
  }

 private:
  /// Messages from a rank to another, which receives them in the order sent.
  struct Channel {
    struct Message {
      Op received;
      int64_t block, micro_batch;
      double arrives;
    };
    Wire wire;
    std::vector<Message> sent;
    size_t taken = 0;

    void clear() {
      sent.clear();
      taken = 0;
    }
  };
  struct State {
    size_t at = 0;
    double time = 0, kept = 0;
    std::vector<bool> recomputed;   // [block]
    size_t stage = 0;               // of its pipeline
    std::vector<Channel> sends_to;  // [stage]
  };

  void play_step() {
    met_ = false;
    begin_ = 0;
    for (auto& state : states_) {
      begin_ = std::max(begin_, state.time);
      state.at = 0;
      for (auto& channel : state.sends_to) channel.clear();
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        while (step(r)) moved = true;
      }
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      internal_check(states_[r].at == ranks_[r].program.size(), "parallel", "rank {} hangs", r);
      timeline_.length = std::max(timeline_.length, states_[r].time - begin_);
    }
  }

  bool is_told() const { return step_ + 1 == num_steps_; }

  /// Begins or completes the next instruction of rank `r`; false where it must wait.
  bool step(size_t r) {
    auto& state = states_[r];
    const auto& program = ranks_[r].program;
    if (state.at == program.size()) return false;
    const auto& i = program[state.at];
    if (sends(i.op)) {
      send(r, i);
    } else if (receives(i.op)) {
      if (!receive(r, i)) return false;
    } else if (i.op == Op::ReduceLoss) {
      if (!meet(r)) return false;
    } else if (i.op == Op::Update) {
      update(r, i);
    } else if (i.op == Op::Accumulate) {
      accumulate(r, i);
    } else if (i.block >= 0) {
      wait(r, reads(i, ranks_[r].layout));
      compute(r, i);
    } else {
      hold_up(r, beside_[r].start(state.time, i));
    }
    ++state.at;
    return true;
  }

  void hold_up(size_t r, double until) {
    auto& time = states_[r].time;
    if (until <= time) return;
    if (is_told()) timeline_.held_up[r] += until - time;
    time = until;
  }

  void wait(size_t r, const std::vector<int64_t>& buckets) {
    for (const int64_t bucket : buckets) hold_up(r, beside_[r].gathered(bucket));
  }

  void update(size_t r, const Instruction& i) {
    if (times_.empty()) return;
    hold_up(r, beside_[r].ready_to_update(i.bucket));
    const double takes = at_or_none(times_[r].update, i.bucket);
    if (is_told()) timeline_.updates[r] += takes;
    states_[r].time += takes;
  }

  void accumulate(size_t r, const Instruction& i) {
    if (times_.empty() || i.micro_batch == 0) return;
    const double takes = at_or_none(times_[r].accumulate, i.unit) / times_[r].speed;
    if (is_told()) timeline_.computing[r] += takes;
    states_[r].time += takes;
  }

  void send(size_t r, const Instruction& i) {
    const bool forth = i.op == Op::Send;
    const auto to = static_cast<size_t>(i.peer);
    auto& channel = states_[r].sends_to.at(to);
    double arrives = 0;
    if (times_.empty() || times_[r].to_stage.empty()) {
      const auto& takes = forth ? costs_.send : costs_.send_grad;
      arrives = channel.wire.send(states_[r].time, at_or_none(takes, i.block));
    } else {
      const auto& bytes = forth ? costs_.sent_bytes : costs_.grad_bytes;
      arrives =
          channel.wire.send(states_[r].time, at_or_none(bytes, i.block), times_[r].to_stage.at(to));
    }
    channel.sent.push_back(
        {forth ? Op::Receive : Op::ReceiveGrad, i.block, i.micro_batch, arrives});
  }

  void compute(size_t r, const Instruction& i) {
    const auto b = static_cast<size_t>(i.block);
    auto& time = states_[r].time;
    const bool again = states_[r].recomputed[b];
    const double begin = time;
    const double speed = times_.empty() ? 1 : times_[r].speed;
    const auto takes = [&](double all, const std::vector<double>& sums) {
      const double waits = at_or_none(sums, i.block);
      return (all - waits) / speed + waits;
    };
    const auto of = [b](const std::vector<double>& bytes) {
      return bytes.empty() ? 0 : bytes.at(b);
    };
    const auto& put_off = costs_.put_off.empty() ? costs_.kept : costs_.put_off;
    const bool has_before = i.block <= 0 || ranks_[r].layout.holds(i.block - 1);
    const double received = has_before || costs_.sent_bytes.empty() ? 0 : costs_.sent_bytes[b - 1];
    switch (i.op) {
      case Op::Forward:
        keep(r, received + (again ? of(costs_.inputs) : of(costs_.kept)));
        time += takes(costs_.forward.at(b), costs_.forward_sums);
        break;
      case Op::Recompute:
        keep(r, of(costs_.kept) - of(costs_.inputs));
        time += takes(costs_.forward.at(b), costs_.forward_sums);
        break;
      case Op::Backward:
        time += takes(costs_.backward.at(b), costs_.backward_sums);
        keep(r, -of(costs_.kept) - received);
        break;
      case Op::BackwardInput:
        time += takes(costs_.input_half(b), costs_.backward_sums);
        keep(r, of(put_off) - of(costs_.kept) - received);
        break;
      case Op::BackwardWeight:
        time += costs_.weight_half(b) / speed;
        keep(r, -of(put_off));
        break;
      default:
        return;
    }
    if (!is_told()) return;
    timeline_.computing[r] += time - begin;
    if (draws_) timeline_.ranks[r].push_back({i, begin - begin_, time - begin_});
  }

  void keep(size_t r, double more) {
    if (more == 0) return;
    states_[r].kept += more;
    if (is_told() && draws_) {
      timeline_.memory[r].emplace_back(states_[r].time - begin_, states_[r].kept);
    }
  }

  bool receive(size_t r, const Instruction& i) {
    const auto& pipeline = ranks_[r].pipeline;
    const int from = pipeline.at(static_cast<size_t>(i.peer));
    auto& channel = states_[static_cast<size_t>(from)].sends_to.at(states_[r].stage);
    if (channel.taken == channel.sent.size()) return false;
    const auto& [op, block, micro_batch, arrives] = channel.sent[channel.taken];
    const bool comes_next = op == i.op && block == i.block && micro_batch == i.micro_batch;
    if (!comes_next) {  // the text of each message would take longer than the rest
      internal_check(false, "parallel", "rank {} receives '{}', which is not what comes next", r,
                     to_text(i));
    }
    ++channel.taken;
    states_[r].time = std::max(states_[r].time, arrives);
    return true;
  }

  void play_sums() {
    std::vector<std::vector<BegunSum>> begun;
    for (auto& beside : beside_) begun.push_back(beside.take_begun());
    const double ended = end_of_sums_(begun);
    for (auto& beside : beside_) beside.set_ended(ended);
  }

  /// Runs the reductions at the end of a step for rank `r`; false until all ranks have come to
  /// them.
  bool meet(size_t r) {
    if (!met_) {
      for (size_t other = 0; other < ranks_.size(); ++other) {
        const auto& program = ranks_[other].program;
        const size_t at = states_[other].at;
        if (at < program.size() && program[at].op != Op::ReduceLoss) return false;
      }
      met_ = true;
      if (end_of_sums_) play_sums();
      for (size_t all = 0; all < ranks_.size(); ++all) {
        hold_up(all, beside_[all].summed(states_[all].time));
        met_at_ = std::max(all == 0 ? 0 : met_at_, states_[all].time);
      }
    }
    states_[r].time = std::max(states_[r].time, met_at_);
    return true;
  }

  const std::vector<RankProgram>& ranks_;
  const Costs& costs_;
  const std::vector<StepTimes>& times_;
  int num_steps_, step_ = 0;
  bool draws_;
  const EndOfSums& end_of_sums_;
  double begin_ = 0;  // of the step
  std::vector<State> states_;
  std::vector<OverlappedWork> beside_;
  bool met_ = false;
  double met_at_ = 0;
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

Timeline simulate(const std::vector<RankProgram>& ranks, const Costs& costs,
                  const std::vector<StepTimes>& times, int num_steps, Detail detail,
                  const EndOfSums& end_of_sums) {
  return Simulation(ranks, costs, times, num_steps, detail, end_of_sums).run();
}

}  // namespace convoy::parallel
