#include "convoy/options/batch.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::options {

namespace {

/// Advice where no number of micro-batches of `rows` on `ranks` makes `batch`.
std::string what_divides(int64_t batch, int64_t ranks, int64_t rows) {
  if (batch % ranks == 0) {
    const int64_t of_rank = batch / ranks;
    int64_t fits = std::min(rows, of_rank);
    while (of_rank % fits != 0) --fits;
    return fmt::format("--per_device_train_batch_size {}", fits);
  }
  const int64_t step = ranks * rows, below = batch / step * step;
  const auto above = std::to_string(below + step);
  return "--global_batch_size " + (below > 0 ? fmt::format("{} or {}", below, above) : above);
}

}  // namespace

int64_t step_rows(const TrainingArguments& arguments, int64_t data_ranks) {
  return arguments.global_batch_size.value_or(arguments.per_device_train_batch_size *
                                              arguments.gradient_accumulation_steps * data_ranks);
}

void hold_batch(TrainingArguments& arguments, int64_t data_ranks, int64_t per_device) {
  if (!arguments.global_batch_size) return;
  const int64_t batch = *arguments.global_batch_size, step = data_ranks * per_device;
  if (arguments.gradient_accumulation_steps != 1) {
    fail<UsageError>("train",
                     "global_batch_size = {} and gradient_accumulation_steps = {} both say how "
                     "many rows a step has; try one of them",
                     batch, arguments.gradient_accumulation_steps);
  }
  if (batch % step != 0) {
    fail<UsageError>(
        "train",
        "global_batch_size = {} does not divide into micro-batches of {} on {}; try "
        "{}",
        batch, plural(per_device, "row"),
        data_ranks == 1 ? "one rank" : fmt::format("{} ranks that share out the data", data_ranks),
        what_divides(batch, data_ranks, per_device));
  }
  arguments.gradient_accumulation_steps = batch / step;
  arguments.global_batch_size.reset();
}

void hold_batch(TrainingArguments& arguments, int64_t data_ranks) {
  hold_batch(arguments, data_ranks, arguments.per_device_train_batch_size);
}

}  // namespace convoy::options
