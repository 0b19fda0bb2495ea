#include "convoy/train/loop/loss_scaling.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/comm/to_host.h"

namespace convoy::train {

double LossScaling::of_step(int64_t samples, int64_t tokens) {
  auto& scale = run_.state.loss_scale;
  if (scale.targets_per_sample == 0) {
    auto all = at::full({1}, tokens, at::kLong);
    run_.job.groups.rows.all_reduce(all, comm::ReduceOp::Sum, "count tokens");
    const auto targets = comm::item<double>(all);
    scale.targets_per_sample = std::max(1.0, targets / static_cast<double>(samples));
  }
  return scale.of_sum(samples);
}

void LossScaling::update(const parallel::StepResult& result, int64_t samples) {
  auto& state = run_.state;
  auto& scale = state.loss_scale;
  if (result.count > 0) scale.targets_per_sample = result.count / static_cast<double>(samples);
  scale.update(result.skipped);
  state.skipped_steps += result.skipped;
  if (result.skipped) {
    run_.callbacks.say(
        fmt::format("skipped step {}: its gradient overflowed fp16; the loss scale is now {:g}",
                    state.global_step, scale.value));
  }
  if (scale.value < 1) {
    fail_on_all_ranks<NumericError>(
        "train",
        "the gradient of step {} is not finite whatever the loss scale; try bf16, a "
        "lower learning_rate, or look for NaN in the data",
        state.global_step);
  }
}

void LossScaling::check_skipped() const {
  const auto& state = run_.state;
  if (2 * state.skipped_steps <= state.global_step) return;
  fail_on_all_ranks<NumericError>(
      "train",
      "{} of {} steps were skipped, since their gradients overflowed fp16: the model "
      "is not trained, and not saved; the loss scale is {:g} now; try bf16, a lower "
      "learning_rate, or more steps where there were only a few",
      state.skipped_steps, state.global_step, state.loss_scale.value);
}

void LossScaling::tell_skipped() const {
  const auto& state = run_.state;
  if (state.skipped_steps == 0) return;
  run_.callbacks.say(fmt::format(
      "warning: {} of {} steps {} skipped, since their gradients overflowed fp16",
      state.skipped_steps, state.global_step, state.skipped_steps == 1 ? "was" : "were"));
}

}  // namespace convoy::train
