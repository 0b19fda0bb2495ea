#include "convoy/parallel/pipeline/builders.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::parallel {

namespace {

Orders naive(const Pipe& pipe) {
  Orders out;
  for (int rank = 0; rank < pipe.num_ranks(); ++rank) {
    const auto own = pipe.virtual_stages_of(rank);
    auto& order = out.emplace_back();
    for (int64_t m = 0; m < pipe.num_micro_batches; ++m) {
      for (const int64_t v : own) order.push_back({v, ActionKind::Forward, m});
      for (auto v = own.rbegin(); v != own.rend(); ++v) {
        order.push_back({*v, ActionKind::Backward, m});
      }
    }
  }
  return out;
}

}  // namespace

const ScheduleEntry kNaive{.name = "naive",
                           .help = "one micro-batch at a time",
                           .orders = naive,
                           .goes_by_costs = never_by_costs,
                           .is_planned = never_planned};

}  // namespace convoy::parallel
