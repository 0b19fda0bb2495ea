#include <cmath>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
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
  if (last_.num_writing == 0) checkpoints_->finish(state);
  if (last_.short_rank >= 0) {
    batch_sizer_.step_down(stream_, last_.short_rank);
    return false;
  }
  ++state.global_step;
  state.epoch_position = batch.end;
  state.last_grad_norm = last_.grad_norm;
  if (run_.arguments.fp16) loss_scaling_.update(last_, samples);
  targets_.add(last_);
  log_.add_step(last_, rows_sum);
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

void Trainer::Impl::finish_trace() try {
  if (const auto file = trace_.finish(); !file.empty()) {
    run_.callbacks.say(fmt::format("wrote the trace {}; ui.perfetto.dev shows it", file.string()));
  }
} catch (const FileError& error) {  // no reason to lose the training, too
  run_.callbacks.warn(error.what());
}

}  // namespace convoy::train
