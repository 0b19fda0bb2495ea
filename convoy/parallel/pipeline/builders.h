#pragma once

#include "convoy/parallel/pipeline/actions.h"

namespace convoy::parallel {

/// Actions of all micro-batches of a rank in groups of `group`, each group through all its virtual
/// stages: forward in the model's order, a backward in the opposite one.
std::vector<Action> in_groups(const Pipe& pipe, int rank, ActionKind kind, int64_t group);

/// Order of `ahead` forwards, then a forward and a backward in turns, then the remaining backwards.
std::vector<Action> in_turns(const std::vector<Action>& forwards,
                             const std::vector<Action>& backwards, size_t ahead);

/// Rules by which a list schedule chooses among the actions that could begin.
struct ListRules {
  bool halves = false;
  /// Whether the forward farthest in the model comes first; else the one of the earliest group of
  /// `group` micro-batches, and in it the one that comes first in the model.
  bool deep_first = true;
  int64_t group = 1;
  bool forward_first = false;  ///< else backward first
  double patience = 0;  ///< a weight half begins if the next action is no nearer than this part
  double memory = 0;    ///< bytes that a rank may keep for backward; not less than smallest_memory
};

/// Makes a schedule in which every rank begins at any time the action that suits the rules best, of
/// those whose inputs are there and which it has room for: some micro-batch can always be finished.
/// Weight halves fill the gaps.
Orders list_schedule(const Pipe& pipe, const ListRules& rules);

/// Rules that are worth a trial.
std::vector<ListRules> list_rules(const Pipe& pipe, bool halves, double memory);

/// Bytes that a rank needs to finish one micro-batch: with fewer there is no schedule.
double smallest_memory(const Pipe& pipe);

/// Memory that Pipe asks for, or that 1f1b needs: on rank s of P the activations of P - s
/// micro-batches, the most of all ranks.
double memory_bound(const Pipe& pipe);

/// Throws UsageError.
[[noreturn]] void fail_for_memory(double memory, double smallest);

/// ScheduleEntry::goes_by_costs of orders that are the same whatever stages cost.
inline bool never_by_costs(const Pipe& /*pipe*/) {
  return false;
}

/// ScheduleEntry::is_planned of schedules that another one beats.
inline bool never_planned(int /*stages*/, int64_t /*micro_batches*/) {
  return false;
}

}  // namespace convoy::parallel
