#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "convoy/base/error.h"
#include "convoy/schedule/check.h"

namespace convoy::schedule {

namespace {

using Ranks = std::vector<RankProgram>;

bool is_collective(const RankProgram& rank, const Instruction& i) {
  const bool among_data = i.op == Op::Gather || i.op == Op::Reduce || i.op == Op::ReduceScatter;
  return i.op == Op::ReduceLoss || (among_data && rank.data.size() > 1);
}

/// Names a group: the ranks that share samples, or all (empty).
const std::vector<int>& group_of(const RankProgram& rank, const Instruction& i) {
  static const std::vector<int> kAll;
  return i.op == Op::ReduceLoss ? kAll : rank.data;
}

/// Throws unless the collectives of each group come in one order on its ranks.
void check_order(const Ranks& ranks) {
  std::map<std::vector<int>, std::pair<size_t, Program>> first;  // [group] of its first rank
  for (size_t r = 0; r < ranks.size(); ++r) {
    std::map<std::vector<int>, Program> here;
    for (const auto& i : ranks[r].program) {
      if (is_collective(ranks[r], i)) here[group_of(ranks[r], i)].push_back(i);
    }
    for (auto& [group, calls] : here) {
      const auto& [leader, expected] = first.insert({group, {r, calls}}).first->second;
      for (size_t c = 0; c < std::max(calls.size(), expected.size()); ++c) {
        const auto text = [c](const Program& of) {
          return c < of.size() ? "'" + to_text(of[c]) + "'" : "none";
        };
        internal_check(c < calls.size() && c < expected.size() && calls[c] == expected[c],
                       "schedule", "rank {}: {} is the collective that meets {} of rank {}", r,
                       text(calls), text(expected), leader);
      }
    }
  }
}

/// A send, a receive, or both begun at once.
using Exchange = Program;

bool meet(const Instruction& sent, const Instruction& received) {
  return (sent.op == Op::Send) == (received.op == Op::Receive) && sent.block == received.block &&
         sent.micro_batch == received.micro_batch;
}

/// Plays the programs side by side.
class Play {
 public:
  explicit Play(const Ranks& ranks) : ranks_(ranks), states_(ranks.size()) {}

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        while (step(static_cast<int>(r))) moved = true;
      }
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (!ended(static_cast<int>(r))) tell_circle(static_cast<int>(r));
    }
    for (const auto& [pair, queue] : queues_) {
      internal_check(queue.empty(), "schedule", "rank {}: '{}' is never received", pair.first,
                     queue.empty() ? "" : to_text(queue.front().front()));
    }
  }

 private:
  using Pair = std::pair<int, int>;  // who begun it, with whom
  struct State {
    size_t at = 0;
    bool begun = false;                            // the instruction at `at`
    std::map<std::vector<int>, int64_t> calls;     // [group] collectives begun
    std::map<std::pair<int, Op>, int64_t> unsent;  // [peer, kind]
  };

  const RankProgram& rank(int r) const { return ranks_[static_cast<size_t>(r)]; }
  State& state(int r) { return states_[static_cast<size_t>(r)]; }
  bool ended(int r) { return state(r).at == rank(r).program.size(); }
  const Instruction& current(int r) { return rank(r).program[state(r).at]; }
  int peer_of(int r, const Instruction& i) const {
    return rank(r).pipeline.at(static_cast<size_t>(i.peer));
  }

  /// Whether rank `r` got on.
  bool step(int r) {
    if (ended(r)) return false;
    auto& it = state(r);
    const size_t length = exchange_length(rank(r).program, it.at);
    if (!it.begun) {
      if (length > 0 && !begin_exchange(r, length)) return false;
      if (is_collective(rank(r), current(r))) ++it.calls[group_of(rank(r), current(r))];
      it.begun = true;
      if (!waits_for(r).empty()) return true;
    } else if (!waits_for(r).empty()) {
      return false;
    }
    it.begun = false;
    it.at += length > 0 ? length : 1;
    return true;
  }

  /// Of each kind one send to a peer is under way.
  bool begin_exchange(int r, size_t length) {
    const int other = peer_of(r, current(r));
    internal_check(current(r).with_next == (length == 2), "schedule",
                   "rank {}: '{}' is not followed by what it goes with", r, to_text(current(r)));
    Exchange exchange;
    for (size_t k = 0; k < length; ++k) {
      const auto& i = rank(r).program[state(r).at + k];
      if (sends(i.op) && state(r).unsent[{other, i.op}] > 0) return false;
      exchange.push_back(i);
    }
    for (const auto& i : exchange) {
      if (sends(i.op)) ++state(r).unsent[{other, i.op}];
    }
    queues_[{r, other}].push_back(std::move(exchange));
    match(r, other);
    return true;
  }

  /// What stands first in both queues of two ranks comes together.
  void match(int a, int b) {
    auto &of_a = queues_[{a, b}], &of_b = queues_[{b, a}];
    while (!of_a.empty() && !of_b.empty()) {
      auto x = of_a.front(), y = of_b.front();
      if (x.size() != y.size()) return;
      if (x.size() == 2 && sends(x[0].op) == sends(y[0].op)) std::swap(y[0], y[1]);
      for (size_t k = 0; k < x.size(); ++k) {
        const bool from_a = sends(x[k].op);
        if (from_a == sends(y[k].op)) return;
        const auto& sent = from_a ? x[k] : y[k];
        const auto& received = from_a ? y[k] : x[k];
        internal_check(meet(sent, received), "schedule", "rank {}: '{}' meets '{}' of rank {}",
                       from_a ? b : a, to_text(received), to_text(sent), from_a ? a : b);
        --state(from_a ? a : b).unsent[{from_a ? b : a, sent.op}];
      }
      of_a.pop_front();
      of_b.pop_front();
    }
  }

  /// The ranks without which rank `r` cannot end what it has begun.
  std::vector<int> waits_for(int r) {
    const auto& i = current(r);
    std::vector<int> out;
    if (exchange_length(rank(r).program, state(r).at) > 0) {
      const int other = peer_of(r, i);
      for (const auto& exchange : queues_[{r, other}]) {
        for (const auto& each : exchange) {
          if (receives(each.op)) return {other};
        }
      }
    } else if (is_collective(rank(r), i)) {
      const auto& group = group_of(rank(r), i);
      const int64_t mine = state(r).calls[group];
      for (int other = 0; other < static_cast<int>(ranks_.size()); ++other) {
        const bool member =
            group.empty() || std::find(group.begin(), group.end(), other) != group.end();
        if (member && state(other).calls[group] < mine) out.push_back(other);
      }
    }
    return out;
  }

  void tell_circle(int r) {
    std::string text;
    const int first = r;
    for (std::set<int> seen; !ended(r) && seen.insert(r).second;) {
      const auto& i = current(r);
      const auto whom = waits_for(r);
      const int next = whom.empty() ? peer_of(r, i) : whom.front();
      text +=
          fmt::format("{} '{}' waits for rank {}", text.empty() ? "" : ", whose", to_text(i), next);
      r = next;
    }
    if (ended(r)) text += ", which has ended";
    internal_check(false, "schedule", "rank {}:{}", first, text);
  }

  const Ranks& ranks_;
  std::vector<State> states_;
  std::map<Pair, std::deque<Exchange>> queues_;
};

}  // namespace

void check_meetings(const std::vector<RankProgram>& ranks) {
  check_order(ranks);
  Play(ranks).run();
}

}  // namespace convoy::schedule
