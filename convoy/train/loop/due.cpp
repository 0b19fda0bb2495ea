#include "convoy/train/loop/due.h"

#include <algorithm>
#include <cmath>

#include "convoy/optim/lr_schedule.h"

namespace convoy::train {

int64_t steps_of(double value, const TrainerState& state) {
  double steps = value < 1 ? std::ceil(value * static_cast<double>(state.max_steps)) : value;
  return std::max<int64_t>(1, static_cast<int64_t>(steps));
}

int64_t last_step(const options::TrainingArguments& arguments, const TrainerState& state) {
  if (arguments.stop_steps == 0) return state.max_steps;
  return std::min(state.max_steps, steps_of(arguments.stop_steps, state));
}

bool is_due(const std::string& strategy, double steps, const TrainerState& state, bool epoch_end) {
  if (strategy == "steps") return state.global_step % steps_of(steps, state) == 0;
  return strategy == "epoch" && (epoch_end || state.global_step >= state.max_steps);
}

double learning_rate(const options::TrainingArguments& arguments, const TrainerState& state,
                     int64_t update) {
  optim::LrSchedule schedule;
  schedule.type = arguments.lr_scheduler_type;
  schedule.shape = optim::LrShape::read(schedule.type, arguments.lr_scheduler_kwargs);
  schedule.peak = arguments.learning_rate;
  schedule.total_steps = state.max_steps;
  schedule.warmup_steps = arguments.warmup_steps > 0
                              ? arguments.warmup_steps
                              : static_cast<int64_t>(std::ceil(
                                    arguments.warmup_ratio * static_cast<double>(state.max_steps)));
  return schedule.at(update);
}

}  // namespace convoy::train
