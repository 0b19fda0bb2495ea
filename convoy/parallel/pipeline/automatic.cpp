#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/parallel/pipeline/best.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::parallel {

namespace {

/// Whether the largest possible weight gradients fit when deferred.
bool has_room_for_halves(const Pipe& pipe) {
  auto larger = pipe;
  larger.costs = pipe.all_costs();
  for (size_t v = 0; v < pipe.rank_of.size(); ++v) {
    larger.costs.kept[v] = std::max(larger.costs.kept[v], larger.costs.put_off[v]);
  }
  return smallest_memory(larger) <= memory_bound(pipe);
}

}  // namespace

void fail_for_memory(double memory, double smallest) {
  fail<UsageError>("parallel",
                   "pipeline_memory = {:.0f} ({}) fits no schedule: one micro-batch keeps {} on a "
                   "stage; try {:.0f} or more",
                   memory, human_bytes(memory), human_bytes(smallest), std::ceil(smallest));
}

namespace {

Orders automatic(const Pipe& pipe) {
  const double memory = memory_bound(pipe), smallest = smallest_memory(pipe);
  if (memory < smallest) fail_for_memory(memory, smallest);
  Best best(pipe, memory);
  const bool once = pipe.num_virtual_stages() == pipe.num_ranks();
  for (const auto* entry : pipeline_schedules()) {
    if (entry == &kAutomatic || !(once || entry->interleaved)) continue;
    best.try_out(entry->orders(pipe));
  }
  best.try_out(kNaive.orders(pipe));
  for (const bool halves : {false, true}) {
    if (halves && !has_room_for_halves(pipe)) continue;
    for (const auto& rules : list_rules(pipe, halves, memory)) {
      best.try_out(joined(pipe, list_schedule(pipe, rules)));
    }
  }
  return best.take();
}

}  // namespace

const ScheduleEntry kAutomatic{.name = "auto",
                               .help = "the fastest in a simulation",
                               .orders = automatic,
                               .interleaved = true,
                               .either_placement = true,
                               .is_planned = never_planned};

}  // namespace convoy::parallel
