#include "convoy/tasks/each_row.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/comm/to_host.h"

namespace convoy::tasks {

void each_row(
    train::Trainer& trainer, const dataset::Dataset& data, int64_t most, int64_t width,
    const char* what,
    const std::function<at::Tensor(const nn::Bundle& out, const at::Tensor& rows)>& numbers,
    const std::function<void(int64_t row, std::span<const double> numbers)>& use, nn::Mode mode) {
  auto& strategy = trainer.strategy();
  const auto& group = strategy.processes();
  const auto use_step = [&](const dataset::StepBatch& step, const std::vector<nn::Bundle>& outs) {
    const int64_t ranks = strategy.num_ranks();
    const int64_t room = (step.end - step.s0 + ranks - 1) / ranks * strategy.num_local_ranks();
    auto mine = at::empty({room, 1 + width}, at::kDouble);  // the row, its numbers
    int64_t filled = 0;
    for (size_t c = 0; c < outs.size(); ++c) {
      const auto& micro_batch = step.micro_batches[c];
      const bool none = micro_batch.empty() || step.num_samples[c] == 0 || outs[c].empty();
      if (none || !strategy.tells_rows()) continue;
      const auto rows = micro_batch.samples + step.s0;
      auto here = mine.narrow(0, filled, rows.size(0));
      here.select(1, 0).copy_(rows);  // on the host
      comm::download_into(here.narrow(1, 1, width), numbers(outs[c], rows));
      filled += rows.size(0);
    }
    const auto all = group.gather_rows(mine.narrow(0, 0, filled), "gather rows");
    if (group.rank() != 0) return;
    const auto order = all.select(1, 0).argsort().contiguous();
    for (int64_t i = 0; i < order.size(0); ++i) {
      const auto* from =
          all.const_data_ptr<double>() + order.const_data_ptr<int64_t>()[i] * all.size(1);
      if (most > 0 && from[0] >= static_cast<double>(most)) continue;
      const std::span<const double> found(from + 1, static_cast<size_t>(width));
      const auto row = static_cast<int64_t>(from[0]);
      if (!std::all_of(found.begin(), found.end(), [](double x) { return std::isfinite(x); })) {
        fail<NumericError>("tasks",
                           "the scores of {} {} are not finite; try another checkpoint, or fp32",
                           what, row + 1);
      }
      use(row, found);
    }
  };
  trainer.predict(data, use_step, most, mode);
}

}  // namespace convoy::tasks
