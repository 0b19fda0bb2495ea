#pragma once

#include <vector>

#include "convoy/parallel/pipeline/actions.h"

namespace convoy::parallel {

/// Progress of a step in time and memory: the rules that playing a schedule and making one have in
/// common.
class Board {
 public:
  explicit Board(const Pipe& pipe);

  /// Time at which all inputs of an action are there; infinity: not known yet.
  double ready(const Action& action) const;
  /// Computes an action on its rank, as soon as the rank is free and the inputs are there; returns
  /// the beginning.
  double run(const Action& action);

  double time(int rank) const { return time_[static_cast<size_t>(rank)]; }
  double kept(int rank) const { return kept_[static_cast<size_t>(rank)]; }
  double peak(int rank) const { return peak_[static_cast<size_t>(rank)]; }
  double busy(int rank) const { return busy_[static_cast<size_t>(rank)]; }

  double kept_by(int64_t virtual_stage) const { return of(costs_.kept, virtual_stage); }
  double put_off_by(int64_t virtual_stage) const { return of(costs_.put_off, virtual_stage); }
  double takes(const Action& action) const;

 private:
  static double of(const std::vector<double>& all, int64_t virtual_stage) {
    return all.empty() ? 0 : all[static_cast<size_t>(virtual_stage)];
  }
  size_t at(int64_t virtual_stage, int64_t micro_batch) const {
    return static_cast<size_t>(virtual_stage * num_micro_batches_ + micro_batch);
  }
  int rank_of(int64_t virtual_stage) const { return rank_of_[static_cast<size_t>(virtual_stage)]; }
  double arrival(int64_t from, int64_t to, double now, double message);
  void keep(int rank, double more);

  std::vector<int> rank_of_;
  int64_t num_micro_batches_;
  Costs costs_;
  std::vector<double> time_, kept_, peak_, busy_;  // [rank]
  // [virtual stage and micro-batch] When its input, its gradient are there; when its forward, the
  // input half of its backward have ended.
  std::vector<double> input_, gradient_, forward_, half_;
  std::vector<Wire> wires_;  // [from x ranks + to]
};

}  // namespace convoy::parallel
