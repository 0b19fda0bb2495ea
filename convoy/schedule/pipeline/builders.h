#pragma once

#include "convoy/schedule/pipeline/actions.h"

namespace convoy::schedule {

/// All micro-batches of a rank in groups of so many, each group through all its virtual stages:
/// forward in the model's order, a backward in the opposite one.
std::vector<Action> in_groups(const Pipe& pipe, int rank, ActionKind kind, int64_t group);

/// So many forwards, then a forward and a backward in turns, then the backwards that are left.
std::vector<Action> in_turns(const std::vector<Action>& forwards,
                             const std::vector<Action>& backwards, size_t ahead);

/// How a list schedule chooses among what it could begin.
struct ListRules {
  bool halves = false;
  /// Of forwards: the one farthest in the model first, else the one of the earliest group of so
  /// many micro-batches, and in it the one that comes first in the model.
  bool deep_first = true;
  int64_t group = 1;
  bool forward_first = false;  ///< else backward first
  double patience = 0;  ///< a weight half begins if what comes next is no nearer than this part
  double memory = 0;    ///< bytes that a rank may keep for backward; not less than smallest_memory
};

/// Every rank begins at any time what suits the rules best of all that it has the inputs of, and
/// room for: some micro-batch can always be finished. Weight halves fill the gaps.
Orders list_schedule(const Pipe& pipe, const ListRules& rules);

/// Rules that are worth a trial.
std::vector<ListRules> list_rules(const Pipe& pipe, bool halves, double memory);

/// What a rank needs to finish one micro-batch: with fewer bytes there is no schedule.
double smallest_memory(const Pipe& pipe);

/// The memory that Pipe asks for, or what 1f1b needs: on rank s of P the activations of P - s
/// micro-batches, the most of all ranks.
double memory_bound(const Pipe& pipe);

/// Throws UsageError.
[[noreturn]] void fail_for_memory(double memory, double smallest);

// One file each.
Orders naive(const Pipe& pipe);
Orders gpipe(const Pipe& pipe);
Orders one_f_one_b(const Pipe& pipe);
Orders interleaved(const Pipe& pipe);
Orders zero_bubble(const Pipe& pipe);
Orders automatic(const Pipe& pipe);

}  // namespace convoy::schedule
