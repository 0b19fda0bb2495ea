#include <algorithm>

#include "convoy/parallel/pipeline/builders.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::parallel {

std::vector<Action> in_groups(const Pipe& pipe, int rank, ActionKind kind, int64_t group) {
  auto own = pipe.virtual_stages_of(rank);
  if (kind != ActionKind::Forward) std::reverse(own.begin(), own.end());
  std::vector<Action> out;
  for (int64_t first = 0; first < pipe.num_micro_batches; first += group) {
    for (const int64_t v : own) {
      for (int64_t m = first; m < std::min(first + group, pipe.num_micro_batches); ++m) {
        out.push_back({v, kind, m});
      }
    }
  }
  return out;
}

std::vector<Action> in_turns(const std::vector<Action>& forwards,
                             const std::vector<Action>& backwards, size_t ahead) {
  ahead = std::min(ahead, forwards.size());
  std::vector<Action> out(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(ahead));
  for (const auto& backward : backwards) {
    if (ahead < forwards.size()) out.push_back(forwards[ahead++]);
    out.push_back(backward);
  }
  return out;
}

namespace {

Orders one_f_one_b(const Pipe& pipe) {
  const int ranks = pipe.num_ranks();
  Orders out;
  for (int rank = 0; rank < ranks; ++rank) {
    out.push_back(in_turns(in_groups(pipe, rank, ActionKind::Forward, pipe.num_micro_batches),
                           in_groups(pipe, rank, ActionKind::Backward, pipe.num_micro_batches),
                           static_cast<size_t>(ranks - 1 - rank)));
  }
  return out;
}

std::vector<int64_t> begun_one_f_one_b(const Pipe& pipe, int rank) {
  return {std::min<int64_t>(pipe.num_micro_batches, pipe.num_ranks() - rank)};
}

}  // namespace

const ScheduleEntry kOneFOneB{.name = "1f1b",
                              .help = "one forward, one backward: less activation memory",
                              .orders = one_f_one_b,
                              .goes_by_costs = never_by_costs,
                              .begun = begun_one_f_one_b};

}  // namespace convoy::parallel
