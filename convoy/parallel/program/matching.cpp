#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "convoy/base/error.h"
#include "convoy/parallel/program/check.h"
#include "convoy/parallel/program/op_table.h"

namespace convoy::parallel {

namespace {

using Ranks = std::vector<RankProgram>;

bool is_collective(const RankProgram& rank, const Instruction& i) {
  switch (facts_of(i.op).among) {
    case Among::Data:
      return rank.data.size() > 1;
    case Among::Tensor:
      return rank.tensor.size() > 1;
    case Among::StagesOfUnit:
    case Among::All:
      return true;
    case Among::Self:
    case Among::Peer:
      return false;
  }
  return false;
}

/// Ranks of an instruction's group: those that share samples or parameters, the stages that hold a
/// unit, or all (empty).
std::vector<int> group_of(const Ranks& ranks, const RankProgram& rank, const Instruction& i) {
  switch (facts_of(i.op).among) {
    case Among::All:
      return {};
    case Among::Tensor:
      return rank.tensor;
    case Among::StagesOfUnit: {
      auto group = rank.pipeline;
      std::erase_if(group, [&](int r) {
        return !ranks.at(static_cast<size_t>(r)).layout.holds_unit(i.unit);
      });
      return group;
    }
    default:
      return rank.data;
  }
}

/// Throws unless the collectives of each group come in one order on its ranks.
void check_order(const Ranks& ranks) {
  std::map<std::vector<int>, std::pair<size_t, Program>> first;  // [group] of its first rank
  for (size_t r = 0; r < ranks.size(); ++r) {
    std::map<std::vector<int>, Program> here;
    for (const auto& i : ranks[r].program) {
      if (is_collective(ranks[r], i)) here[group_of(ranks, ranks[r], i)].push_back(i);
    }
    for (auto& [group, calls] : here) {
      const auto& [leader, expected] = first.insert({group, {r, calls}}).first->second;
      for (size_t c = 0; c < std::max(calls.size(), expected.size()); ++c) {
        const auto text = [c](const Program& of) {
          return c < of.size() ? "'" + to_text(of[c]) + "'" : "none";
        };
        internal_check(c < calls.size() && c < expected.size() && calls[c] == expected[c],
                       "parallel", "rank {}: {} is the collective that meets {} of rank {}", r,
                       text(calls), text(expected), leader);
      }
    }
  }
}

bool meet(const Instruction& sent, const Instruction& received) {
  return (sent.op == Op::Send) == (received.op == Op::Receive) && sent.block == received.block &&
         sent.micro_batch == received.micro_batch;
}

/// Runs the programs of all ranks side by side, to find a deadlock.
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
      internal_check(queue.empty(), "parallel", "rank {}: '{}' is never received", pair.first,
                     queue.empty() ? "" : to_text(queue.front()));
    }
  }

 private:
  using Pair = std::pair<int, int>;  // from, to
  /// Collectives of a group.
  struct Collectives {
    size_t num_members = 0;
    std::vector<size_t> begun;  // [call] by so many
  };
  struct State {
    size_t at = 0;
    bool begun = false;                         // the instruction at `at`
    std::map<std::vector<int>, int64_t> calls;  // [group] collectives begun
    const Collectives* matched = nullptr;       // of the last of them
    size_t call = 0;
  };

  const RankProgram& rank(int r) const { return ranks_[static_cast<size_t>(r)]; }
  State& state(int r) { return states_[static_cast<size_t>(r)]; }
  bool ended(int r) { return state(r).at == rank(r).program.size(); }
  const Instruction& current(int r) { return rank(r).program[state(r).at]; }
  int peer_of(int r, const Instruction& i) const {
    return rank(r).pipeline.at(static_cast<size_t>(i.peer));
  }

  /// Begins or completes the next instruction of rank `r`; false where it must wait.
  bool step(int r) {
    if (ended(r)) return false;
    auto& it = state(r);
    const auto& i = current(r);
    const bool fresh = !it.begun;
    if (fresh) {
      if (sends(i.op)) queues_[{r, peer_of(r, i)}].push_back(i);
      if (is_collective(rank(r), i)) begin_collective(r, i);
      it.begun = true;
    }
    if (waits(r)) return fresh;
    if (receives(i.op)) take(r, i);
    it.begun = false;
    ++it.at;
    return true;
  }

  void begin_collective(int r, const Instruction& i) {
    auto& it = state(r);
    const auto group = group_of(ranks_, rank(r), i);
    auto& matched = collectives_[group];
    matched.num_members = group.empty() ? ranks_.size() : group.size();
    it.matched = &matched;
    it.call = static_cast<size_t>(it.calls[group]++);
    if (matched.begun.size() == it.call) matched.begun.push_back(0);
    ++matched.begun[it.call];
  }

  /// Whether rank `r` waits for others to complete its last instruction.
  bool waits(int r) {
    const auto& i = current(r);
    if (receives(i.op)) return queues_[{peer_of(r, i), r}].empty();
    const auto& it = state(r);
    return is_collective(rank(r), i) && it.matched->begun[it.call] < it.matched->num_members;
  }

  /// Takes a message from its sender's queue, as messages arrive in the order sent.
  void take(int r, const Instruction& received) {
    const int other = peer_of(r, received);
    auto& queue = queues_[{other, r}];
    const auto sent = queue.front();
    internal_check(meet(sent, received), "parallel", "rank {}: '{}' meets '{}' of rank {}", r,
                   to_text(received), to_text(sent), other);
    queue.pop_front();
  }

  /// Ranks that rank `r` waits for.
  std::vector<int> waits_for(int r) {
    const auto& i = current(r);
    std::vector<int> out;
    if (receives(i.op)) {
      const int other = peer_of(r, i);
      if (queues_[{other, r}].empty()) out.push_back(other);
    } else if (is_collective(rank(r), i)) {
      const auto group = group_of(ranks_, rank(r), i);
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
      const int next = waits_for(r).front();
      text +=
          fmt::format("{} '{}' waits for rank {}", text.empty() ? "" : ", whose", to_text(i), next);
      r = next;
    }
    if (ended(r)) text += ", which has ended";
    internal_check(false, "parallel", "rank {}:{}", first, text);
  }

  const Ranks& ranks_;
  std::vector<State> states_;
  std::map<Pair, std::deque<Instruction>> queues_;
  std::map<std::vector<int>, Collectives> collectives_;  // [group]
};

}  // namespace

void check_matching(const std::vector<RankProgram>& ranks) {
  check_order(ranks);
  Play(ranks).run();
}

}  // namespace convoy::parallel
