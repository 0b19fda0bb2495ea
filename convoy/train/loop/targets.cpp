#include "convoy/train/loop/targets.h"

#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/train/loop/streams.h"

namespace convoy::train {

void TargetCount::add(const parallel::StepResult& step) {
  num_targets_ += step.count;
  if (step.count > 0) return;
  ++untold_;
  if (!step.skipped) ++run_.state.steps_without_targets;
}

void TargetCount::check() const {
  if (num_targets_ > 0) return;
  fail_on_all_ranks<UsageError>("train", "no row of the training data has a target; {}",
                                no_targets_hint());
}

void TargetCount::tell() {
  const auto count = std::exchange(untold_, 0);
  if (count == 0) return;
  run_.callbacks.say(fmt::format(
      "warning: {} up to step {} had no target, and {} in no mean; try a larger batch, or where "
      "tokens are hidden a larger mlm_probability",
      plural(count, "step"), run_.state.global_step, count == 1 ? "counts" : "count"));
}

}  // namespace convoy::train
