#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/comm/to_host.h"
#include "convoy/job/numerics.h"
#include "convoy/optim/lr_schedule.h"
#include "convoy/train/loop/trainer_impl.h"
#include "convoy/train/run_sums.h"

namespace convoy::train {

std::optional<dataset::StepBatch> Trainer::Impl::next_batch() {
  auto batch = fault_ends_data() ? std::nullopt : stream_->next();
  const auto wanted = stream_options(true).layout.accumulation;
  if (batch && std::ssize(batch->micro_batches) < wanted) {
    fail<UsageError>("data", "a step of the data set has {} of {} micro-batches",
                     batch->micro_batches.size(), wanted);
  }
  // Resumed with another total batch, the last full step of an epoch may not fit any more.
  const auto all = std::min(stream_->steps_per_epoch() * state_.step_samples, state_.num_rows);
  const auto least = arguments_.dataloader_drop_last ? state_.step_samples : 1;
  if (!batch && all - state_.epoch_position >= least) {
    fail<FileError>("data",
                    "rank {} has no rows left after {} of the {} rows of an epoch; has a file "
                    "changed since the start, or do the ranks read different data?",
                    job_.environment.rank, state_.epoch_position, state_.num_rows);
  }
  return batch;
}

double Trainer::Impl::learning_rate(int64_t step) const {
  optim::LrSchedule schedule;
  schedule.type = arguments_.lr_scheduler_type;
  schedule.shape = optim::LrShape::read(schedule.type, arguments_.lr_scheduler_kwargs);
  schedule.peak = arguments_.learning_rate;
  schedule.total_steps = state_.max_steps;
  schedule.warmup_steps =
      arguments_.warmup_steps > 0
          ? arguments_.warmup_steps
          : static_cast<int64_t>(
                std::ceil(arguments_.warmup_ratio * static_cast<double>(state_.max_steps)));
  return schedule.at(step);
}

bool Trainer::Impl::train_step(dataset::StepBatch batch) {
  const int64_t samples = batch.end - batch.s0, tokens = batch.num_tokens;
  const uint64_t rows_sum = keeps_sums() ? sum_of_rows(batch, state_.global_step) : 0;
  const auto local = static_cast<size_t>(strategy_->num_local_ranks());
  std::vector<std::vector<parallel::MicroBatch>> split(local);
  for (size_t c = 0; c < batch.micro_batches.size(); ++c) {
    split[c % local].push_back(std::move(batch.micro_batches[c]));
  }
  parallel::StepInput input;
  input.seed = static_cast<uint64_t>(arguments_.seed);
  input.step = state_.global_step;
  input.updates = state_.earlier_updates + state_.updates();
  input.learning_rate = learning_rate(state_.updates());
  input.stop_signal = stop_signal_;
  input.busy = checkpoints_->writing();
  const int64_t every = arguments_.check_replicas_steps;
  input.check_replicas = every > 0 && (state_.global_step + 1) % every == 0;
  if (state_.global_step + 1 == observed_step_) input.observer = observer_;
  input.may_give_up = arguments_.auto_find_batch_size && fewer_rows() > 0;
  if (arguments_.fp16) input.loss_scale = loss_scale(samples, tokens);
  parallel::OptimizerOptions optimizer;
  optimizer.weight_decay = arguments_.weight_decay;
  optimizer.max_grad_norm = arguments_.max_grad_norm;
  trace_.begin_step();
  tell_step(state_.global_step + 1);
  {
    const job::Tf32 products(arguments_.tf32);
    const StepLimit limit(*strategy_, arguments_.parallel.device_memory);
    last_ = strategy_->step(split, input, optimizer);
  }
  if (trace_.end_step()) finish_trace();
  if (last_.num_busy == 0) checkpoints_->finish();
  if (last_.short_rank >= 0) {
    step_down();
    return false;
  }
  own_rows_sum_ += rows_sum;
  num_targets_ += last_.count;
  state_.last_grad_norm = last_.grad_norm;
  ++state_.global_step;
  state_.epoch_position = batch.end;
  if (arguments_.fp16) update_loss_scale(samples);
  if (last_.count == 0) {
    ++unlogged_without_targets_;
    if (!last_.skipped) ++state_.steps_without_targets;
  } else if (!last_.skipped) {
    state_.logged_loss_sum += last_.loss();
    ++state_.logged_steps;
    state_.total_loss_sum += last_.loss();
    add_metrics();
  }
  // Alone there is nobody to wait for, though the sums over ranks take their moment.
  const double waited = job_.num_devices() > 1 ? last_.wait_seconds : 0;
  clock_.add_step(samples, waited);
  StepTiming timing = clock_.timing(data_wait());
  timing.step = state_.global_step;
  timing.loss = last_.count > 0 ? last_.loss() : NAN;
  timing.samples = samples;
  timing.comm_wait = waited;
  timing.local_tokens = tokens;
  callbacks_.notify([&](Callback& callback) { callback.on_step(timing); });
  if (slow_ranks_) {
    for (const auto& text : slow_ranks_->after_step(timing)) callbacks_.warn(text);
  }
  return true;
}

/// Adds the last step's means of what the model tells beside the loss.
void Trainer::Impl::add_metrics() {
  if (last_.metrics.empty()) return;
  const auto names = strategy_->replica().metrics();
  for (size_t i = 0; i < names.size(); ++i) {
    state_.logged_metrics[names[i]] += last_.metrics[i] / last_.count;
  }
}

/// Adds what all ranks read since the last call to the state's sum. Collective.
void Trainer::Impl::add_up_rows() {
  if (!keeps_sums()) return;
  auto sum = at::full({1}, static_cast<int64_t>(std::exchange(own_rows_sum_, 0)), at::kLong);
  job_.groups.rows.all_reduce(sum, comm::ReduceOp::Sum, "add up the rows that were read");
  state_.rows_sum += static_cast<uint64_t>(comm::item<int64_t>(sum));
}

/// Saves a checkpoint, whose state has the sum of all rows that were read. Collective.
void Trainer::Impl::save_checkpoint(bool wait) {
  add_up_rows();
  checkpoints_->save(state_, wait);
}

/// Collective.
void Trainer::Impl::tell_weights() {
  if (!keeps_sums()) return;
  const Doing doing("sum weights");
  const auto sums = sums_of_weights(*strategy_);
  callbacks_.notify([&](Callback& callback) { callback.on_weight_sums(sums, state_.global_step); });
}

/// Loss scale of a step, equal on all ranks. Before the first step every token counts as a target.
double Trainer::Impl::loss_scale(int64_t samples, int64_t tokens) {
  auto& scale = state_.loss_scale;
  if (scale.targets_per_sample == 0) {
    auto all = at::full({1}, tokens, at::kLong);
    job_.groups.rows.all_reduce(all, comm::ReduceOp::Sum, "count tokens");
    const auto targets = comm::item<double>(all);
    scale.targets_per_sample = std::max(1.0, targets / static_cast<double>(samples));
  }
  return scale.of_sum(samples);
}

void Trainer::Impl::update_loss_scale(int64_t samples) {
  auto& scale = state_.loss_scale;
  if (last_.count > 0) scale.targets_per_sample = last_.count / static_cast<double>(samples);
  state_.loss_scale.update(last_.skipped);
  state_.skipped_steps += last_.skipped;
  if (last_.skipped) {
    callbacks_.say(
        fmt::format("skipped step {}: its gradient overflowed fp16; the loss scale is now {:g}",
                    state_.global_step, state_.loss_scale.value));
  }
  if (state_.loss_scale.value < 1) {
    fail_on_all_ranks<NumericError>(
        "train",
        "the gradient of step {} is not finite whatever the loss scale; try bf16, a "
        "lower learning_rate, or look for NaN in the data",
        state_.global_step);
  }
}

/// Throws where most steps were skipped: the model was not trained.
void Trainer::Impl::check_skipped() const {
  if (2 * state_.skipped_steps <= state_.global_step) return;
  fail_on_all_ranks<NumericError>(
      "train",
      "{} of {} steps were skipped, since their gradients overflowed fp16: the model "
      "is not trained, and not saved; the loss scale is {:g} now; try bf16, a lower "
      "learning_rate, or more steps where there were only a few",
      state_.skipped_steps, state_.global_step, state_.loss_scale.value);
}

}  // namespace convoy::train
