#include <cmath>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/job/numerics.h"
#include "convoy/train/loop/due.h"
#include "convoy/train/loop/step_limit.h"
#include "convoy/train/loop/trainer_impl.h"
#include "convoy/train/run_sums.h"

// A step of the training.
namespace convoy::train {

bool Trainer::Impl::train_step(dataset::StepBatch batch) {
  auto& state = run_.state;
  const int64_t samples = batch.end - batch.s0, tokens = batch.num_tokens;
  const uint64_t rows_sum = run_.keeps_sums() ? sum_of_rows(batch, state.global_step) : 0;
  const auto local = static_cast<size_t>(run_.strategy->num_local_ranks());
  std::vector<std::vector<parallel::MicroBatch>> split(local);
  for (size_t c = 0; c < batch.micro_batches.size(); ++c) {
    split[c % local].push_back(std::move(batch.micro_batches[c]));
  }
  const auto input = input_of_step(samples, tokens);
  parallel::OptimizerOptions optimizer;
  optimizer.weight_decay = run_.arguments.weight_decay;
  optimizer.max_grad_norm = run_.arguments.max_grad_norm;
  trace_.begin_step();
  tell_step(state.global_step + 1);
  {
    const job::Tf32 products(run_.arguments.tf32);
    const StepLimit limit(*run_.strategy, run_.arguments.parallel.device_memory);
    last_ = run_.strategy->step(split, input, optimizer);
  }
  if (trace_.end_step()) finish_trace();
  if (last_.num_writing == 0) checkpoints_->finish();
  if (last_.short_rank >= 0) {
    batch_sizer_.step_down(stream_, last_.short_rank);
    return false;
  }
  own_rows_sum_ += rows_sum;
  ++state.global_step;
  state.epoch_position = batch.end;
  count_step(samples);
  tell_step_time(samples, tokens);
  return true;
}

parallel::StepInput Trainer::Impl::input_of_step(int64_t samples, int64_t tokens) {
  const auto& arguments = run_.arguments;
  const auto& state = run_.state;
  parallel::StepInput input;
  input.seed = static_cast<uint64_t>(arguments.seed);
  input.step = state.global_step;
  input.updates = state.earlier_updates + state.updates();
  input.learning_rate = learning_rate(arguments, state, state.updates());
  input.stop_signal = stop_.source();
  input.writing_checkpoint = checkpoints_->writing();
  const int64_t every = arguments.check_replicas_steps;
  input.check_replicas = every > 0 && (state.global_step + 1) % every == 0;
  if (state.global_step + 1 == observed_step_) input.observer = observer_;
  input.may_give_up = arguments.auto_find_batch_size && batch_sizer_.fewer_rows() > 0;
  if (arguments.fp16) input.loss_scale = loss_scaling_.of_step(samples, tokens);
  return input;
}

/// Adds the last step to the state's sums.
void Trainer::Impl::count_step(int64_t samples) {
  auto& state = run_.state;
  state.last_grad_norm = last_.grad_norm;
  if (run_.arguments.fp16) loss_scaling_.update(last_, samples);
  targets_.add(last_);
  if (last_.count == 0 || last_.skipped) return;
  state.logged_loss_sum += last_.loss();
  ++state.logged_steps;
  state.total_loss_sum += last_.loss();
  if (last_.metrics.empty()) return;
  const auto names = run_.strategy->replica().metrics();
  for (size_t i = 0; i < names.size(); ++i) {
    state.logged_metrics[names[i]] += last_.metrics[i] / last_.count;
  }
}

void Trainer::Impl::tell_step_time(int64_t samples, int64_t tokens) {
  // Alone there is nobody to wait for, though the sums over ranks take their moment.
  const double waited = run_.job.num_devices() > 1 ? last_.wait_seconds : 0;
  clock_.add_step(samples, waited);
  StepTiming timing = clock_.timing(stream_.wait_seconds());
  timing.step = run_.state.global_step;
  timing.loss = last_.count > 0 ? last_.loss() : NAN;
  timing.samples = samples;
  timing.comm_wait = waited;
  timing.local_tokens = tokens;
  run_.state.useful_seconds += timing.seconds;
  run_.callbacks.notify([&](Callback& callback) { callback.on_step(timing); });
  if (!slow_ranks_) return;
  for (const auto& text : slow_ranks_->after_step(timing)) run_.callbacks.warn(text);
}

/// Throws the error of a step that is not finite, with the command that replays it where a
/// checkpoint allows that.
void Trainer::Impl::name_replay(const std::exception& any) const {
  const auto* error = dynamic_cast<const NumericError*>(&any);
  const auto& folder = run_.arguments.output.dir;
  const int64_t step = run_.state.global_step + 1;
  if (error == nullptr || folder.empty()) return;
  const std::string text = error->what();
  if (text.find(fmt::format(" of step {} is not finite", step)) == std::string::npos) return;
  if (!checkpoint::latest_checkpoint(folder)) return;
  NumericError more(
      fmt::format("{}; convoy replay {} --step {} shows in which block", text, folder, step));
  if (error->on_all_ranks()) more.set_on_all_ranks();
  throw more;
}

}  // namespace convoy::train
