#include <cmath>
#include <utility>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/comm/agree.h"
#include "convoy/launch/process.h"
#include "convoy/train/injected_fault.h"
#include "convoy/train/loop/due.h"
#include "convoy/train/loop/make_strategy.h"
#include "convoy/train/loop/results.h"
#include "convoy/train/loop/trainer_impl.h"

// The loop of a training.
namespace convoy::train {

namespace {

/// Trace that the options ask for of the steps that are left; its first steps pay for what is made
/// once.
Trace trace_of(const RunContext& run) {
  constexpr int64_t kWarmup = 3;  // steps
  const auto& output = run.arguments.output;
  const auto& process = run.job.environment;
  const bool warms_up = last_step(run.arguments, run.state) - run.state.global_step > kWarmup;
  return Trace(output.trace, process.rank, process.world_size, warms_up ? kWarmup : 0,
               output.trace_steps);
}

}  // namespace

Metrics Trainer::Impl::train() {
  if (!train_data_) fail<UsageError>("train", "there is no training data; got none");
  check_gradients(*run_.strategy);
  tell_operation("start");
  stop_.begin();
  prepare();
  inject_fault("start", *run_.strategy, run_.job.world());
  if (before_first_step_) before_first_step_();
  const bool nothing_left = ended();
  if (!nothing_left && run_.arguments.load_best_model_at_end) {
    checkpoints_->tell_lost_best(run_.state);
  }
  // Asked before any rank can write one: all ranks must decide alike.
  const bool keeps_model =
      nothing_left && comm::ask_main(run_.job.world(), "look for a model", [&] {
                        return checkpoints_->holds_model_of(run_.state);
                      }).get<bool>();
  clock_ = Clock(run_.state);
  const auto traffic_before = run_.strategy->traffic();
  if (run_.arguments.eval_on_start && run_.state.global_step == 0) evaluations_.at_start();
  make_up_evaluation();
  if (checkpoints_->lost_save()) save_checkpoint(/*wait=*/ended());
  trace_ = trace_of(run_);
  memory_.begin();
  clock_.start();
  while (!ended()) train_epoch();
  finish_trace();
  log_.write();
  if (!nothing_left) targets_.check();
  tell_rest();
  const Metrics metrics = results(run_, clock_, traffic_before, memory_);
  if (keeps_model) {
    keep_finished_model(metrics);
  } else {
    save_finished_model(metrics, nothing_left);
  }
  return metrics;
}

/// Trains the rest of an epoch.
void Trainer::Impl::train_epoch() {
  auto& state = run_.state;
  stream_.start();
  auto batch = stream_.next();
  while (batch && !ended()) {
    if (!train_step(std::move(*batch))) {
      batch = stream_.next();
      continue;
    }
    stop_.listen();
    // Reads on beyond stop_steps, to find the end of an epoch and do what is due there.
    const bool more = state.global_step < state.max_steps;
    tell_operation("data");
    if (more) batch = stream_.next();
    const bool epoch_end = more && !batch;
    if (epoch_end) {
      ++state.epoch_index;
      state.epoch_position = 0;
      targets_.check();
    }
    log_.write_if_due(epoch_end);  // before it is saved that these steps were not logged yet
    if (last_.stop_signal != 0 && more) {
      stop_early(epoch_end);
    } else {
      after_step(epoch_end);
    }
  }
  if (!batch && state.epoch_position > 0) {  // resumed exactly at the end of an epoch
    ++state.epoch_index;
    state.epoch_position = 0;
  }
}

/// Tells how to resume a training that stop_steps ended.
void Trainer::Impl::tell_rest() const {
  const auto& state = run_.state;
  const bool stops =
      state.global_step >= last_step(run_.arguments, state) && state.global_step < state.max_steps;
  if (!stops || stop_.ended_by != 0 || evaluations_.stopped_early()) return;
  run_.callbacks.say(fmt::format(
      "ended after step {} of {}, as stop_steps = {:g} says; {}", state.global_step,
      state.max_steps, run_.arguments.stop_steps,
      run_.leaves_checkpoints()
          ? "go on with --resume_from_checkpoint latest and another --stop_steps, 0 for all"
          : "no checkpoint was saved from which it could go on"));
}

bool Trainer::Impl::ended() const {
  return evaluations_.stopped_early() || stop_.ended_by != 0 ||
         run_.state.global_step >= last_step(run_.arguments, run_.state);
}

void Trainer::Impl::after_step(bool epoch_end) {
  const auto& arguments = run_.arguments;
  const auto& state = run_.state;
  log_.tell_failed_kernels();
  clock_.pause();
  const bool better = evaluations_.is_due(epoch_end) && evaluations_.after_step();
  const bool end = evaluations_.stopped_early() || state.global_step >= last_step(arguments, state);
  if (end) loss_scaling_.check_skipped();
  // A run that saves also saves its end, so that more steps can follow.
  const bool saves = (end && arguments.save_strategy != "no") ||
                     is_due(arguments.save_strategy, arguments.save_steps, state, epoch_end) ||
                     (better && arguments.load_best_model_at_end) || checkpoints_->owes_save();
  const bool adds_up = saves || end || evaluations_.are_of_last_step() ||
                       (arguments.sum_steps > 0 && state.global_step % arguments.sum_steps == 0);
  if (adds_up) log_.tell_weights();
  const auto& ranks = run_.strategy->processes();
  if (saves && !ended()) stop_.ended_by = stop_.of_any_rank(ranks);
  if (stop_.ended_by != 0) {
    leave(/*is_saved=*/false);
  } else if (saves) {
    save_checkpoint(/*wait=*/end || checkpoints_->owes_save());
    // Another step would have to be saved anew.
    if (!end && !arguments.save_async) stop_.ended_by = stop_.of_any_rank(ranks);
    if (stop_.ended_by != 0) leave(/*is_saved=*/true);
  }
  if (!ended() && checkpoints_->is_memory_copy_due(state.global_step)) {
    log_.add_up_rows();
    checkpoints_->copy_to_memory(state);
  }
  clock_.resume();
}

/// Stops early on a signal. A due evaluation would take too long; the resumed run makes it up.
void Trainer::Impl::stop_early(bool epoch_end) {
  stop_.ended_by = last_.stop_signal;
  run_.state.evaluation_owed = evaluations_.is_due(epoch_end);
  clock_.pause();
  leave(/*is_saved=*/false);
  clock_.resume();
}

/// Ends a stopped run, and saves what a resumed one needs.
void Trainer::Impl::leave(bool is_saved) {
  const int64_t step = run_.state.global_step;
  std::string what = "nothing was saved";
  if (run_.leaves_checkpoints()) {
    if (!is_saved) save_checkpoint(/*wait=*/true);
    what = fmt::format("saved {}; resume with --resume_from_checkpoint {}",
                       checkpoints_->path(step).string(), checkpoints_->name_to_resume(step));
  } else if (keeps_stopped_model()) {
    what = "it was the last one, so the model is saved, but was not evaluated";
  }
  run_.callbacks.say(fmt::format("stopped by {} after step {}; {}",
                                 launch::signal_name(stop_.ended_by), step, what));
}

/// Whether the model of a run stopped after its last step must be saved, as no checkpoint holds it.
bool Trainer::Impl::keeps_stopped_model() const {
  return run_.state.global_step >= last_step(run_.arguments, run_.state) &&
         !run_.leaves_checkpoints() && !run_.arguments.output.dir.empty();
}

/// Makes up an evaluation that a signal prevented, and saves the model where it is the best.
void Trainer::Impl::make_up_evaluation() {
  if (!evaluations_.make_up()) return;
  if (run_.arguments.load_best_model_at_end) {
    save_checkpoint(/*wait=*/ended());
  } else {
    checkpoints_->note_resumed_as_best(run_.state);
  }
}

/// Saves a checkpoint, with the checksum of all rows that were read in its state. Collective.
void Trainer::Impl::save_checkpoint(bool wait) {
  log_.add_up_rows();
  checkpoints_->save(run_.state, wait);
}

/// Keeps the saved model of a finished run, and writes results that a kill prevented.
void Trainer::Impl::keep_finished_model(const Metrics& metrics) {
  checkpoints_->restore_small_files();
  const auto trained = checkpoints_->saved_metrics("train");
  checkpoints_->save_metrics("train", trained.empty() ? of_earlier_starts(metrics) : trained);
  evaluations_.find_end(*checkpoints_);
}

/// Saves the model and the results of a training that ended, unless a signal ended it.
void Trainer::Impl::save_finished_model(const Metrics& metrics, bool nothing_left) {
  auto& state = run_.state;
  checkpoints_->finish(state);
  if (checkpoints_->owes_save()) save_checkpoint(/*wait=*/true);
  loss_scaling_.tell_skipped();
  if (stop_.ended_by != 0 && !keeps_stopped_model()) return;
  const bool is_best = evaluations_.load_best(*checkpoints_);
  checkpoints_->save_model(state, is_best ? state.best_step : state.global_step);
  checkpoints_->save_metrics("train", nothing_left ? of_earlier_starts(metrics) : metrics);
  if (evaluations_.are_of_last_step()) checkpoints_->save_metrics("eval", evaluations_.metrics());
  run_.callbacks.notify([&](Callback& callback) { callback.on_train_end(metrics); });
}

}  // namespace convoy::train
