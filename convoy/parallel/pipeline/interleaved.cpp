#include <algorithm>

#include "convoy/parallel/pipeline/builders.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::parallel {

namespace {

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

bool unless_a_loop(const Pipe& pipe) {
  return !pipe.is_loop();
}

bool with_several(int /*stages*/, int64_t micro_batches) {
  return micro_batches > 1;
}

/// Returns the forwards that each virtual stage of a rank has begun when its first backward is due,
/// in groups of as many micro-batches as there are stages.
std::vector<int64_t> begun_interleaved(const Pipe& pipe, int rank) {
  const int64_t p = pipe.num_ranks(), each = pipe.num_virtual_stages() / p;
  std::vector<int64_t> out(static_cast<size_t>(each), 1);
  if (pipe.num_micro_batches % p != 0) return out;
  int64_t left = std::min(pipe.num_micro_batches * each, 2 * (p - 1 - rank) + (each - 1) * p + 1);
  std::fill(out.begin(), out.end(), 0);
  for (size_t n = 0; left > 0; n = (n + 1) % out.size()) {
    const int64_t some = std::min(left, p);
    out[n] += some;
    left -= some;
  }
  return out;
}

}  // namespace

const ScheduleEntry kInterleaved{
    .name = "interleaved",
    .help = "1f1b with several virtual stages per rank: a smaller bubble",
    .orders = interleaved,
    .interleaved = true,
    .goes_by_costs = unless_a_loop,
    .is_planned = with_several,
    .begun = begun_interleaved};

}  // namespace convoy::parallel
