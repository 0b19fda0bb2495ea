#include "convoy/parallel/pipeline/actions.h"

#include <algorithm>
#include <numeric>

#include "convoy/parallel/pipeline/board.h"

namespace convoy::parallel {

bool has_halves(const Orders& orders) {
  return std::any_of(orders.begin(), orders.end(), [](const auto& order) {
    return std::any_of(order.begin(), order.end(),
                       [](const auto& action) { return action.kind == ActionKind::BackwardInput; });
  });
}

int Pipe::num_ranks() const {
  return rank_of.empty() ? 0 : *std::max_element(rank_of.begin(), rank_of.end()) + 1;
}

Costs Pipe::all_costs() const {
  auto out = costs;
  if (out.forward.empty()) {
    const auto alike = equal_costs(num_virtual_stages(), num_ranks());
    out.forward = alike.forward;
    out.backward = alike.backward;
    out.weight = alike.weight;
  }
  if (out.kept.empty()) out.kept = out.forward;
  if (out.put_off.empty()) out.put_off = out.kept;
  return out;
}

std::vector<int64_t> Pipe::virtual_stages_of(int rank) const {
  std::vector<int64_t> out;
  for (size_t v = 0; v < rank_of.size(); ++v) {
    if (rank_of[v] == rank) out.push_back(static_cast<int64_t>(v));
  }
  return out;
}

bool Pipe::is_loop() const {
  const auto ranks = static_cast<size_t>(num_ranks());
  for (size_t v = 0; v < rank_of.size(); ++v) {
    const bool goes_on =
        v < ranks ? rank_of[v] == static_cast<int>(v) : rank_of[v] == rank_of[v - ranks];
    if (!goes_on) return false;
  }
  return ranks > 0 && rank_of.size() % ranks == 0;
}

bool Pipe::is_v() const {
  const int ranks = num_ranks();
  if (static_cast<int>(rank_of.size()) != 2 * ranks) return false;
  for (int v = 0; v < 2 * ranks; ++v) {
    if (rank_of[static_cast<size_t>(v)] != std::min(v, 2 * ranks - 1 - v)) return false;
  }
  return true;
}

Pipe loop_pipe(int num_ranks, int virtual_stages, int64_t num_micro_batches) {
  Pipe out{.rank_of = {}, .num_micro_batches = num_micro_batches};
  for (int v = 0; v < num_ranks * virtual_stages; ++v) out.rank_of.push_back(v % num_ranks);
  return out;
}

Pipe v_pipe(int num_ranks, int64_t num_micro_batches) {
  Pipe out{.rank_of = {}, .num_micro_batches = num_micro_batches};
  for (int v = 0; v < 2 * num_ranks; ++v) out.rank_of.push_back(std::min(v, 2 * num_ranks - 1 - v));
  return out;
}

Costs equal_costs(int64_t num_virtual_stages, int num_ranks) {
  const auto n = static_cast<size_t>(num_virtual_stages);
  const double part = static_cast<double>(num_ranks) / static_cast<double>(num_virtual_stages);
  Costs out;
  out.forward.assign(n, 1);
  out.backward.assign(n, 2);
  out.weight.assign(n, 1);
  out.kept.assign(n, part);
  out.put_off = out.kept;
  return out;
}

double Played::idle() const {
  const double all = length * static_cast<double>(busy.size());
  return all > 0 ? 1 - std::accumulate(busy.begin(), busy.end(), 0.0) / all : 0;
}

double Played::highest_peak() const {
  return peak.empty() ? 0 : *std::max_element(peak.begin(), peak.end());
}

Played play(const Pipe& pipe, const Orders& orders) {
  Board board(pipe);
  Played out;
  std::vector<size_t> at(orders.size());
  out.begin.resize(orders.size());
  out.end.resize(orders.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < orders.size(); ++r) {
      while (at[r] < orders[r].size() &&
             board.ready(orders[r][at[r]]) < std::numeric_limits<double>::infinity()) {
        out.begin[r].push_back(board.run(orders[r][at[r]++]));
        out.end[r].push_back(board.time(static_cast<int>(r)));
        moved = true;
      }
    }
  }
  out.ends = true;
  for (size_t r = 0; r < orders.size(); ++r) {
    const auto rank = static_cast<int>(r);
    out.ends = out.ends && at[r] == orders[r].size();
    out.length = std::max(out.length, board.time(rank));
    out.busy.push_back(board.busy(rank));
    out.peak.push_back(board.peak(rank));
  }
  return out;
}

double floor_of(const Pipe& pipe) {
  const Board board(pipe);
  std::vector<double> comes(static_cast<size_t>(pipe.num_ranks()), -1), work(comes.size(), 0);
  double way = 0, out = 0;
  for (int64_t v = 0; v < pipe.num_virtual_stages(); ++v) {
    const auto rank = static_cast<size_t>(pipe.rank_of[static_cast<size_t>(v)]);
    if (comes[rank] < 0) comes[rank] = way;
    const double forward = board.takes({v, ActionKind::Forward, 0});
    work[rank] += forward + board.takes({v, ActionKind::Backward, 0});
    way += forward;
    const bool crosses = v + 1 < pipe.num_virtual_stages() &&
                         pipe.rank_of[static_cast<size_t>(v) + 1] != static_cast<int>(rank);
    if (crosses && !pipe.costs.send.empty()) way += pipe.costs.send[static_cast<size_t>(v)];
  }
  for (size_t r = 0; r < work.size(); ++r) {
    out = std::max(out, comes[r] + work[r] * static_cast<double>(pipe.num_micro_batches));
  }
  return out;
}

Orders joined(const Pipe& pipe, const Orders& orders) {
  Orders out;
  for (const auto& order : orders) {
    auto& actions = out.emplace_back();
    for (const auto& action : order) {
      const int64_t v = action.virtual_stage;
      const auto at = static_cast<size_t>(v);
      const bool alone = v == 0 || pipe.rank_of[at - 1] == pipe.rank_of[at];
      const Action half{v, ActionKind::BackwardInput, action.micro_batch};
      if (action.kind == ActionKind::BackwardWeight && alone && !actions.empty() &&
          actions.back() == half) {
        actions.back().kind = ActionKind::Backward;
      } else {
        actions.push_back(action);
      }
    }
  }
  return out;
}

}  // namespace convoy::parallel
