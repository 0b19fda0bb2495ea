#include "convoy/schedule/run/simulate.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/schedule/run/memory.h"

namespace convoy::schedule {

namespace {

double at_or_none(const std::vector<double>& values, int64_t index) {
  return values.empty() ? 0 : values.at(static_cast<size_t>(index));
}

/// What goes on beside the computing of a rank: collectives one after the other, transfers of
/// offloaded state likewise. Each call gives the rank's time after it.
class Beside {
 public:
  Beside(const Layout& layout, const StepTimes& times) : layout_(layout), times_(times) {}

  double start(double now, const Instruction& i) {
    switch (i.op) {
      case Op::Reduce:
        return sum(now, at_or_none(times_.reduce, i.bucket));
      case Op::ReduceScatter:
        if (layout_.offloaded(Kind::Gradients)) {
          now = std::max(with_room(now), fetched({Kind::Gradients, i.bucket}));
        }
        now = sum(now, at_or_none(times_.reduce_scatter, i.bucket));
        if (sums_.size() <= kBucketsInFlight || !layout_.is_sharded(Kind::Gradients)) return now;
        now = std::max(now, sums_.front());
        sums_.pop_front();
        return now;
      case Op::Gather:
        now = std::max(now, fetched({Kind::Weights, i.bucket}));  // the own part is copied
        return collective(now, at_or_none(times_.gather, i.bucket), gathered_[i.bucket]);
      case Op::Fetch:
        now = with_room(now, Key{i.kind, i.bucket});
        fetched_[{i.kind, i.bucket}] = transfer(now, i);
        return now;
      case Op::Store:
        if (i.kind == Kind::Gradients) now = ended(now);
        writes_.emplace_back(Key{i.kind, i.bucket}, transfer(now, i));
        return now;
      case Op::ReduceTensor:
        return now + at_or_none(times_.reduce_tensor, i.unit);
      case Op::FetchRows:  // the rank waits for rows
        return now + times_.fetch_rows;
      case Op::ReduceRows:
        return now + times_.reduce_rows;
      case Op::UpdateRows:
        return now + times_.update_rows;
      default:
        return now;
    }
  }

  /// When a bucket's gathered weights are there.
  double gathered(int64_t bucket) const {
    const auto found = gathered_.find(bucket);
    return found == gathered_.end() ? 0 : found->second;
  }

  /// When all is there that an update reads of a bucket's offloaded state.
  double ready_to_update(int64_t bucket) const {
    double out = 0;
    for (const auto& [kind, times] : times_.offload) out = std::max(out, fetched({kind, bucket}));
    return out;
  }

  /// When all sums have ended, those of losses and norms behind them.
  double summed(double now) { return ended(now) + times_.replicas + times_.totals; }

 private:
  using Key = std::pair<Kind, int64_t>;  // bucket

  double ended(double now) {
    for (const double end : sums_) now = std::max(now, end);
    sums_.clear();
    return now;
  }

  double fetched(const Key& key) const {
    const auto found = fetched_.find(key);
    return found == fetched_.end() ? 0 : found->second;
  }

  /// When there is memory for another bucket, as parallel::Offload has it: of what is written one
  /// bucket may be on its way, and what is fetched must have been written.
  double with_room(double now, std::optional<Key> wanted = {}) {
    const auto is_wanted = [&](const auto& write) { return write.first == wanted; };
    while (!writes_.empty() && (writes_.front().first.second != writes_.back().first.second ||
                                std::any_of(writes_.begin(), writes_.end(), is_wanted))) {
      now = std::max(now, writes_.front().second);
      writes_.pop_front();
    }
    return now;
  }

  double transfer(double now, const Instruction& i) {
    const auto found = times_.offload.find(i.kind);
    if (found == times_.offload.end()) return now;
    auto& queue = transfers_[found->second.place];
    return queue = std::max(queue, now) + at_or_none(found->second.of_bucket, i.bucket);
  }

  double collective(double now, double takes, double& end) {
    end = queue_ = std::max(queue_, now) + takes;
    return now + (1 - times_.beside) * takes;
  }
  double sum(double now, double takes) {
    sums_.push_back(0);
    return collective(now, takes, sums_.back());
  }

  const Layout& layout_;
  StepTimes times_;
  double queue_ = 0;
  std::map<Place, double> transfers_;
  std::map<int64_t, double> gathered_;  // [bucket]
  std::map<Key, double> fetched_;
  std::deque<std::pair<Key, double>> writes_;  // under way
  std::deque<double> sums_;
};

class Simulation {
 public:
  Simulation(const std::vector<RankProgram>& ranks, const Costs& costs,
             const std::vector<StepTimes>& times, int num_steps)
      : ranks_(ranks), costs_(costs), times_(times), num_steps_(num_steps), states_(ranks.size()) {
    timeline_.ranks.resize(ranks.size());
    timeline_.memory.resize(ranks.size());
    timeline_.held_up.resize(ranks.size());
    timeline_.updates.resize(ranks.size());
    for (size_t r = 0; r < ranks.size(); ++r) {
      beside_.emplace_back(ranks[r].layout, times.empty() ? StepTimes() : times.at(r));
      for (const auto& i : ranks[r].program) {
        if (i.op == Op::Recompute) states_[r].recomputed.insert(i.block);
      }
    }
  }

  Timeline run() {
    for (step_ = 0; step_ < num_steps_; ++step_) play_step();
    return std::move(timeline_);
  }

 private:
  struct State {
    size_t at = 0;
    double time = 0, kept = 0;
    std::set<int64_t> recomputed;  // blocks
  };
  /// What travels, from which rank to which.
  using Message = std::tuple<int, int, bool, int64_t, int64_t>;

  void play_step() {
    sent_.clear();
    met_ = false;
    begin_ = 0;
    for (auto& state : states_) {
      begin_ = std::max(begin_, state.time);
      state.at = 0;
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        while (step(r)) moved = true;
      }
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      internal_check(states_[r].at == ranks_[r].program.size(), "schedule", "rank {} hangs", r);
      timeline_.length = std::max(timeline_.length, states_[r].time - begin_);
    }
  }

  bool is_told() const { return step_ + 1 == num_steps_; }

  Message message(size_t r, const Instruction& i) const {
    auto from = static_cast<int>(r), to = ranks_[r].pipeline.at(static_cast<size_t>(i.peer));
    if (receives(i.op)) std::swap(from, to);
    const bool gradient = i.op == Op::SendGrad || i.op == Op::ReceiveGrad;
    return {from, to, gradient, i.block, i.micro_batch};
  }

  /// Whether rank `r` got on.
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

  void send(size_t r, const Instruction& i) {
    const auto crossing = message(r, i);
    const bool forth = i.op == Op::Send;
    auto& wire = wires_[{std::get<0>(crossing), std::get<1>(crossing)}];
    if (times_.empty() || times_[r].to_stage.empty()) {
      const auto& takes = forth ? costs_.send : costs_.send_grad;
      sent_[crossing] = wire.send(states_[r].time, at_or_none(takes, i.block));
      return;
    }
    const auto& bytes = forth ? costs_.sent_bytes : costs_.grad_bytes;
    sent_[crossing] = wire.send(states_[r].time, at_or_none(bytes, i.block),
                                times_[r].to_stage.at(static_cast<size_t>(i.peer)));
  }

  void compute(size_t r, const Instruction& i) {
    const auto b = static_cast<size_t>(i.block);
    auto& time = states_[r].time;
    const bool again = states_[r].recomputed.contains(i.block);
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
    if (is_told()) timeline_.ranks[r].push_back({i, begin - begin_, time - begin_});
  }

  void keep(size_t r, double more) {
    if (more == 0) return;
    states_[r].kept += more;
    if (is_told()) {
      timeline_.memory[r].emplace_back(states_[r].time - begin_, states_[r].kept);
    }
  }

  bool receive(size_t r, const Instruction& i) {
    const auto found = sent_.find(message(r, i));
    if (found == sent_.end()) return false;
    states_[r].time = std::max(states_[r].time, found->second);
    return true;
  }

  /// The end of the step's sums.
  bool meet(size_t r) {
    if (!met_) {
      for (size_t other = 0; other < ranks_.size(); ++other) {
        const auto& program = ranks_[other].program;
        const size_t at = states_[other].at;
        if (at < program.size() && program[at].op != Op::ReduceLoss) return false;
      }
      met_ = true;
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
  double begin_ = 0;  // of the step
  std::vector<State> states_;
  std::vector<Beside> beside_;
  std::map<std::pair<int, int>, Wire> wires_;  // [from, to]
  std::map<Message, double> sent_;             // when it is there
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
                  const std::vector<StepTimes>& times, int num_steps) {
  return Simulation(ranks, costs, times, num_steps).run();
}

}  // namespace convoy::schedule
