#include "convoy/schedule/pipeline/builders.h"

namespace convoy::schedule {

Orders interleaved(const Pipe& pipe) {
  const int ranks = pipe.num_ranks();
  if (!pipe.is_loop()) {
    // Megatron's order is that of a loop; for others the nearest that can be had.
    const ListRules rules{.deep_first = false, .group = ranks, .memory = memory_bound(pipe)};
    return list_schedule(pipe, rules);
  }
  // A group that is not whole is filled with micro-batches that are left out in the end.
  auto whole = pipe;
  whole.num_micro_batches = (pipe.num_micro_batches + ranks - 1) / ranks * ranks;
  Orders out;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto own = pipe.virtual_stages_of(rank).size();
    out.push_back(in_turns(
        in_groups(whole, rank, ActionKind::Forward, ranks),
        in_groups(whole, rank, ActionKind::Backward, ranks),
        static_cast<size_t>(2 * (ranks - 1 - rank)) + (own - 1) * static_cast<size_t>(ranks)));
    std::erase_if(out.back(), [&](const Action& action) {
      return action.micro_batch >= pipe.num_micro_batches;
    });
  }
  return out;
}

}  // namespace convoy::schedule
