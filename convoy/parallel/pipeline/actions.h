#pragma once

#include <cstdint>
#include <vector>

#include "convoy/parallel/program/program.h"
#include "convoy/parallel/program/simulate.h"

namespace convoy::parallel {

/// Forward, backward or half of one of a micro-batch through one virtual stage.
struct Action {
  int64_t virtual_stage = 0;  ///< of all ranks, in the model's order
  ActionKind kind = ActionKind::Forward;
  int64_t micro_batch = 0;

  bool operator==(const Action&) const = default;
};

/// [rank] Actions of a step, in the rank's order.
using Orders = std::vector<std::vector<Action>>;

/// Whether some backward comes in halves.
bool has_halves(const Orders& orders);

/// Problem that a schedule is made for: numbers of virtual stages, not blocks.
struct Pipe {
  std::vector<int> rank_of;  ///< [virtual stage]
  int64_t num_micro_batches = 1;
  /// Costs by virtual stage. Without times all are alike; without bytes each keeps as many as its
  /// forward costs.
  Costs costs = {};
  double memory = 0;  ///< bytes that a rank may keep for backward; 0: as many as with 1f1b

  int num_ranks() const;
  int64_t num_virtual_stages() const { return static_cast<int64_t>(rank_of.size()); }
  /// Returns the costs with the parts that they leave out.
  Costs all_costs() const;
  /// Virtual stages of a rank, in the model's order.
  std::vector<int64_t> virtual_stages_of(int rank) const;
  /// Whether rank s has the virtual stages s, s + P and so on.
  bool is_loop() const;
  /// Whether rank s has the virtual stages s and 2P - 1 - s.
  bool is_v() const;
};

/// A pipe of `num_ranks` ranks with `virtual_stages` virtual stages each, which are all alike.
Pipe loop_pipe(int num_ranks, int virtual_stages, int64_t num_micro_batches);
Pipe v_pipe(int num_ranks, int64_t num_micro_batches);

/// Costs of virtual stages that are all alike: forward, input half and weight half take equal
/// times. A rank keeps 1 in all for a micro-batch, and as much until the weight half.
Costs equal_costs(int64_t num_virtual_stages, int num_ranks);

/// Simulated step.
struct Played {
  bool ends = false;  ///< else ranks wait for each other
  double length = 0;
  std::vector<double> busy, peak;  ///< [rank] time it computes; most bytes it keeps
  std::vector<std::vector<double>> begin = {}, end = {};  ///< [rank] of its actions

  /// Part of the time in which ranks compute nothing.
  double idle() const;
  double highest_peak() const;
};

/// Plays a schedule with the pipe's costs, as simulate() plays its programs.
Played play(const Pipe& pipe, const Orders& orders);

/// Lower bound of every schedule's length: the largest over ranks of the time that the first
/// micro-batch needs to reach it, and all its work.
double floor_of(const Pipe& pipe);

/// Returns the orders with whole backwards in place of an input half that its weight half follows,
/// where no other rank waits in between.
Orders joined(const Pipe& pipe, const Orders& orders);

}  // namespace convoy::parallel
