#include "convoy/parallel/pipeline/board.h"

#include <algorithm>
#include <limits>

namespace convoy::parallel {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

Board::Board(const Pipe& pipe)
    : rank_of_(pipe.rank_of), num_micro_batches_(pipe.num_micro_batches), costs_(pipe.all_costs()) {
  const auto ranks = static_cast<size_t>(pipe.num_ranks());
  for (auto* all : {&time_, &kept_, &peak_, &busy_}) all->assign(ranks, 0);
  wires_.resize(ranks * ranks);
  const auto actions = rank_of_.size() * static_cast<size_t>(num_micro_batches_);
  for (auto* all : {&input_, &gradient_, &forward_, &half_}) all->assign(actions, kNever);
  for (int64_t m = 0; m < num_micro_batches_; ++m) {
    input_[at(0, m)] = 0;
    gradient_[at(pipe.num_virtual_stages() - 1, m)] = 0;
  }
}

double Board::ready(const Action& action) const {
  const size_t place = at(action.virtual_stage, action.micro_batch);
  switch (action.kind) {
    case ActionKind::Forward:
      return input_[place];
    case ActionKind::BackwardWeight:
      return half_[place];
    default:
      return std::max(forward_[place], gradient_[place]);
  }
}

double Board::takes(const Action& action) const {
  const auto v = static_cast<size_t>(action.virtual_stage);
  switch (action.kind) {
    case ActionKind::Forward:
      return costs_.forward[v];
    case ActionKind::Backward:
      return costs_.backward[v];
    case ActionKind::BackwardInput:
      return costs_.input_half(v);
    default:
      return costs_.weight_half(v);
  }
}

double Board::run(const Action& action) {
  const auto& [v, kind, m] = action;
  const int rank = rank_of(v);
  auto& time = time_[static_cast<size_t>(rank)];
  const double begin = std::max(time, ready(action));
  if (kind == ActionKind::Forward) keep(rank, kept_by(v));
  const double took = takes(action);
  time = begin + took;
  busy_[static_cast<size_t>(rank)] += took;
  const auto last = static_cast<int64_t>(rank_of_.size()) - 1;
  if (kind == ActionKind::Forward) {
    forward_[at(v, m)] = time;
    if (v < last) input_[at(v + 1, m)] = arrival(v, v + 1, time, of(costs_.send, v));
    return begin;
  }
  if (kind == ActionKind::BackwardWeight) {
    keep(rank, -put_off_by(v));
    return begin;
  }
  keep(rank, (kind == ActionKind::BackwardInput ? put_off_by(v) : 0) - kept_by(v));
  half_[at(v, m)] = time;
  if (v > 0) gradient_[at(v - 1, m)] = arrival(v, v - 1, time, of(costs_.send_grad, v - 1));
  return begin;
}

/// Time at which a message from virtual stage `from` arrives at `to`.
double Board::arrival(int64_t from, int64_t to, double now, double message) {
  if (rank_of(from) == rank_of(to)) return now;
  const auto wire =
      static_cast<size_t>(rank_of(from)) * time_.size() + static_cast<size_t>(rank_of(to));
  return wires_[wire].send(now, message);
}

void Board::keep(int rank, double more) {
  auto& kept = kept_[static_cast<size_t>(rank)];
  auto& peak = peak_[static_cast<size_t>(rank)];
  kept += more;
  peak = std::max(peak, kept);
}

}  // namespace convoy::parallel
