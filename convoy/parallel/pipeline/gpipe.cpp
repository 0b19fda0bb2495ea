#include "convoy/parallel/pipeline/builders.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::parallel {

namespace {

Orders gpipe(const Pipe& pipe) {
  const int last = pipe.num_ranks() - 1;
  Orders out;
  for (int rank = 0; rank <= last; ++rank) {
    const auto forwards = in_groups(pipe, rank, ActionKind::Forward, pipe.num_micro_batches);
    // The last stage waits for nothing in between, and its loss gives gradients in forward.
    out.push_back(in_turns(forwards,
                           in_groups(pipe, rank, ActionKind::Backward, pipe.num_micro_batches),
                           rank == last ? 0 : forwards.size()));
  }
  return out;
}

}  // namespace

const ScheduleEntry kGPipe{.name = "gpipe",
                           .help = "all forwards before all backwards",
                           .orders = gpipe,
                           .goes_by_costs = never_by_costs,
                           .is_planned = never_planned};

}  // namespace convoy::parallel
