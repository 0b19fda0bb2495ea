#include "convoy/train/trainer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/comm/agree.h"
#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"
#include "convoy/job/numerics.h"
#include "convoy/launch/process.h"
#include "convoy/nn/device_kernel.h"
#include "convoy/planner/estimate/memory_check.h"
#include "convoy/train/checkpoints/run_files.h"
#include "convoy/train/logging/console.h"
#include "convoy/train/logging/event_stream.h"
#include "convoy/train/logging/log_files.h"
#include "convoy/train/loop/torch_seed.h"
#include "convoy/train/loop/trainer_impl.h"
#include "convoy/train/memory_use.h"

namespace convoy::train {

namespace {

constexpr int64_t kTraceWarmup = 3;  // steps

/// Before a device or a thread is taken for them.
const options::ParallelArguments& checked(const options::TrainingArguments& arguments) {
  arguments.check(/*trains=*/false, /*evaluates=*/false);
  return arguments.parallel;
}

/// Results of a start that only saved what earlier ones had trained: no times and rates, which are
/// not those of the training.
Metrics of_earlier_starts(const Metrics& metrics) {
  Metrics out;
  for (const char* name : {"epoch", "train_loss", "train_final_loss"}) {
    if (const auto found = metrics.find(name); found != metrics.end()) out.insert(*found);
  }
  return out;
}

}  // namespace

Trainer::Trainer(parallel::ModelFactory factory, options::TrainingArguments arguments,
                 std::shared_ptr<dataset::Dataset> train_data,
                 std::shared_ptr<dataset::Dataset> eval_data)
    : Trainer(std::move(factory), arguments, std::move(train_data), std::move(eval_data),
              job::join_job(checked(arguments))) {}

Trainer::Trainer(parallel::ModelFactory factory, options::TrainingArguments arguments,
                 std::shared_ptr<dataset::Dataset> train_data,
                 std::shared_ptr<dataset::Dataset> eval_data, Fill fill)
    : Trainer(std::move(factory), arguments, std::move(train_data), std::move(eval_data),
              job::join_job(checked(arguments)), std::move(fill)) {}

Trainer::Trainer(parallel::ModelFactory factory, options::TrainingArguments arguments,
                 std::shared_ptr<dataset::Dataset> train_data,
                 std::shared_ptr<dataset::Dataset> eval_data, job::Job job, Fill fill)
    : impl_(std::make_unique<Impl>(std::move(factory), std::move(arguments), std::move(train_data),
                                   std::move(eval_data), std::move(job), std::move(fill))) {}

Trainer::~Trainer() = default;

void Trainer::set_files(ModelFiles files) {
  const auto csv = parallel::pipeline_csv(impl_->strategy_->replica().plan());
  if (!csv.empty()) files.texts[kPipeline] = csv;
  impl_->checkpoints_->set_files(std::move(files));
}
void Trainer::set_scorer(MakeScorer make_scorer) {
  impl_->make_scorer_ = std::move(make_scorer);
}
void Trainer::add_callback(std::shared_ptr<Callback> callback) {
  if (!callback) fail<UsageError>("train", "a callback is null; expected an object");
  impl_->callbacks_.add(std::move(callback));
}
void Trainer::before_first_step(std::function<void()> work) {
  impl_->before_first_step_ = std::move(work);
}
void Trainer::set_pace(std::function<void(LogRecord&)> pace) {
  impl_->pace_ = std::move(pace);
}
void Trainer::observe(parallel::PassObserver& observer, int64_t step) {
  impl_->observer_ = &observer;
  impl_->observed_step_ = step;
}
void Trainer::stop_on(std::function<const std::atomic<int>&()> listen) {
  impl_->listen_ = std::move(listen);
}
Metrics Trainer::train() try { return impl_->train(); } catch (const std::exception& any) {
  // What was saved before is good. Where only some ranks throw, nobody would answer.
  const auto* error = dynamic_cast<const Error*>(&any);
  const bool alone = impl_->strategy_->processes().size() == 1;
  if (alone || (error != nullptr && error->on_all_ranks())) impl_->checkpoints_->keep();
  impl_->name_replay(any);
  if (impl_->ran_out(any)) fail<UsageError>("memory", "{}", impl_->beyond_device_memory());
  throw;
}
int Trainer::stopped_by() const {
  return impl_->stopped_by_;
}
void Trainer::save_metrics(const std::string& split, const Metrics& metrics) {
  impl_->checkpoints_->save_metrics(split, metrics);
}
void Trainer::load_weights(const std::filesystem::path& folder) {
  impl_->checkpoints_->load_weights(folder);
}
void Trainer::load_moments(const std::filesystem::path& checkpoint) {
  impl_->earlier_updates_ = impl_->checkpoints_->load_moments(checkpoint);
}
bool Trainer::is_main() const {
  return impl_->job_.is_main();
}

const job::Job& Trainer::job() const {
  return impl_->job_;
}
const options::TrainingArguments& Trainer::arguments() const {
  return impl_->arguments_;
}
const TrainerState& Trainer::state() const {
  return impl_->state_;
}
bool Trainer::evaluated_last_step() const {
  return impl_->evaluated_step_ == impl_->state_.global_step;
}
parallel::Strategy& Trainer::strategy() {
  return *impl_->strategy_;
}

Trainer::Impl::Impl(parallel::ModelFactory factory, options::TrainingArguments arguments,
                    std::shared_ptr<dataset::Dataset> train_data,
                    std::shared_ptr<dataset::Dataset> eval_data, job::Job job, Fill fill)
    : arguments_(std::move(arguments)),
      factory_(seeded(std::move(factory), static_cast<uint64_t>(arguments_.seed))),
      train_data_(std::move(train_data)),
      eval_data_(std::move(eval_data)),
      job_(std::move(job)),
      callbacks_(job_.environment.rank),
      best_(arguments_) {
  const auto& process = job_.environment;
  arm_fault(process.rank, job_.in_threads() ? job_.num_devices() : process.world_size,
            process.restart_count, job_.in_threads());
  const auto told = [this](const std::string& text) { callbacks_.warn(text); };
  callbacks_.add(make_log_file(told));
  callbacks_.add(make_console(arguments_.output.quiet));
  if (train_data_ && !arguments_.output.events.empty() && process.rank == 0) {
    callbacks_.add(make_event_stream(arguments_.output.events, told));
  }
  // Errors now rather than at the first evaluation.
  arguments_.check(train_data_ != nullptr, eval_data_ != nullptr);
  refuse_faults_before(train_data_ && !arguments_.eval_on_start ? 1 : 0);
  if (train_data_) per_device(arguments_.per_device_train_batch_size);
  if (eval_data_) per_device(arguments_.per_device_eval_batch_size);
  if (train_data_ && arguments_.report_to == "tensorboard") {
    callbacks_.add(make_tensorboard(arguments_.events_folder(), told));
  }
  if (train_data_ && arguments_.tf32 && job_.devices.at(0).is_cpu()) {
    fail<UsageError>("train", "tf32 is for GPUs; got the CPU; try leaving it out, or bf16");
  }
  if (arguments_.deterministic && job_.devices.at(0).is_cuda()) job::make_gpus_deterministic();
  // Ranks that were started one by one may have been given others.
  comm::check_agreement(job_.world(), arguments_.shared_options(), "options");
  holds_batch_ = arguments_.global_batch_size.has_value();
  if (train_data_ && arguments_.auto_find_batch_size) find_batch(factory_);
  if (train_data_) {
    options::hold_batch(arguments_, job_.num_ranks(),
                        per_device(arguments_.per_device_train_batch_size));
  }
  if (train_data_) planner::set_memory_advice(memory_advice());
  make_strategy(factory_, std::move(fill));
  checkpoints_.emplace(arguments_, job_, *strategy_, callbacks_);
}

int64_t Trainer::Impl::every(double value) const {
  double steps = value < 1 ? std::ceil(value * static_cast<double>(state_.max_steps)) : value;
  return std::max<int64_t>(1, static_cast<int64_t>(steps));
}

bool Trainer::Impl::is_due(const std::string& when, double steps, bool epoch_end) const {
  if (when == "steps") return state_.global_step % every(steps) == 0;
  return when == "epoch" && (epoch_end || state_.global_step >= state_.max_steps);
}

/// Throws the error of a step that is not finite with the command that shows where, where there is
/// a checkpoint for it.
void Trainer::Impl::name_replay(const std::exception& any) const {
  const auto* error = dynamic_cast<const NumericError*>(&any);
  const auto& folder = arguments_.output.dir;
  const int64_t step = state_.global_step + 1;
  if (error == nullptr || folder.empty()) return;
  const std::string text = error->what();
  if (text.find(fmt::format(" of step {} is not finite", step)) == std::string::npos) return;
  if (!checkpoint::latest_checkpoint(folder)) return;
  NumericError more(
      fmt::format("{}; convoy replay {} --step {} shows in which block", text, folder, step));
  if (error->on_all_ranks()) more.set_on_all_ranks();
  throw more;
}

void Trainer::Impl::tell_failed_kernels() {
  const auto failed = nn::failed_kernels();
  for (; num_failed_kernels_ < failed.size(); ++num_failed_kernels_) {
    callbacks_.warn(fmt::format(
        "[nn] torch could not compile or run a kernel for this GPU; got '{}'; torch's own, slower "
        "operations run in its place",
        failed[num_failed_kernels_]));
  }
}

void Trainer::Impl::after_step(bool epoch_end) {
  tell_failed_kernels();
  clock_.pause();
  const bool better = evaluation_is_due(epoch_end) && evaluate_now();
  const bool end = stopped_early_ || state_.global_step >= state_.max_steps;
  if (end) check_skipped();
  // A run that saves also saves its end, so that more steps can follow.
  const bool saves = (end && arguments_.save_strategy != "no") ||
                     is_due(arguments_.save_strategy, arguments_.save_steps, epoch_end) ||
                     (better && arguments_.load_best_model_at_end);
  const bool adds_up = saves || end || evaluated_step_ == state_.global_step ||
                       (arguments_.sum_steps > 0 && state_.global_step % arguments_.sum_steps == 0);
  if (adds_up) tell_weights();
  if (saves && !ended()) stopped_by_ = signal_of_any_rank();
  if (stopped_by_ != 0) {
    leave(/*is_saved=*/false);
  } else if (saves) {
    save_checkpoint(/*wait=*/end);
    // Another step would have to be saved anew.
    if (!end && !arguments_.save_async) stopped_by_ = signal_of_any_rank();
    if (stopped_by_ != 0) leave(/*is_saved=*/true);
  }
  clock_.resume();
}

/// An evaluation that is due would take too long: the run that goes on makes it up.
void Trainer::Impl::stop_early(bool epoch_end) {
  stopped_by_ = last_.stop_signal;
  state_.evaluation_owed = evaluation_is_due(epoch_end);
  clock_.pause();
  leave(/*is_saved=*/false);
  clock_.resume();
}

/// The stop signal that came to one of the ranks, 0 for none. Collective.
int Trainer::Impl::signal_of_any_rank() const {
  auto signal = at::full({1}, stop_signal_ != nullptr ? stop_signal_->load() : 0, at::kLong);
  strategy_->processes().all_reduce(signal, comm::ReduceOp::Max, "look for a stop signal");
  return static_cast<int>(comm::item<int64_t>(signal));
}

/// Ends a stopped run with what a later one needs to go on.
void Trainer::Impl::leave(bool is_saved) {
  std::string what = "nothing was saved";
  if (leaves_checkpoints()) {
    if (!is_saved) save_checkpoint(/*wait=*/true);
    what = fmt::format("saved {}; resume with --resume_from_checkpoint {}",
                       checkpoints_->path(state_.global_step).string(),
                       checkpoints_->name_to_resume(state_.global_step));
  } else if (keeps_stopped_model()) {
    what = "it was the last one, so the model is saved, but was not evaluated";
  }
  callbacks_.say(fmt::format("stopped by {} after step {}; {}", launch::signal_name(stopped_by_),
                             state_.global_step, what));
}

void Trainer::Impl::finish_trace() try {
  if (const auto file = trace_.finish(); !file.empty()) {
    callbacks_.say(fmt::format("wrote the trace {}; ui.perfetto.dev shows it", file.string()));
  }
} catch (const FileError& error) {  // no reason to lose the training, too
  callbacks_.warn(error.what());
}

void Trainer::Impl::check_targets() const {
  if (num_targets_ > 0) return;
  fail_on_all_ranks<UsageError>("train", "no row of the training data has a target; {}",
                                no_targets_hint());
}

/// Since the last log line. Nothing was learned in them but what weight decay and momentum do.
void Trainer::Impl::tell_steps_without_targets() {
  const auto count = std::exchange(unlogged_without_targets_, 0);
  if (count == 0) return;
  callbacks_.say(fmt::format(
      "warning: {} up to step {} had no target, and {} in no mean; where tokens are hidden, try a "
      "larger mlm_probability or a larger batch",
      plural(count, "step"), state_.global_step, count == 1 ? "counts" : "count"));
}

Metrics Trainer::Impl::train() {
  if (!train_data_) fail<UsageError>("train", "there is no training data; got none");
  check_gradients();
  tell_operation("start");
  stopped_by_ = 0;
  stop_signal_ = nullptr;
  may_be_stopped_ = true;
  prepare();
  inject_fault("start");
  if (before_first_step_) before_first_step_();
  const bool nothing_left = ended();
  // Asked before any rank can write one: all ranks must decide alike.
  const bool keeps_model = nothing_left && comm::ask_main(job_.world(), "look for a model", [&] {
                                             return checkpoints_->holds_model_of(state_);
                                           }).get<bool>();
  if (!nothing_left && arguments_.load_best_model_at_end) checkpoints_->tell_lost_best(state_);
  clock_ = Clock(state_);
  const auto traffic_before = strategy_->traffic();
  if (arguments_.eval_on_start && eval_data_ && state_.global_step == 0) {
    eval_metrics_ = evaluate(*eval_data_, "eval_").value();  // no signal is noted yet
    callbacks_.notify([&](Callback& callback) { callback.on_evaluate(eval_metrics_, 0); });
  }
  make_up_evaluation();
  trace_ = Trace(arguments_.output.trace, job_.environment.rank, job_.environment.world_size,
                 state_.max_steps - state_.global_step > kTraceWarmup ? kTraceWarmup : 0,
                 arguments_.output.trace_steps);
  take_memory_use(*strategy_);  // without what the start took
  most_memory_.clear();
  clock_.start();
  while (!ended()) {
    stream_->start(state_.epoch_index, state_.epoch_position);
    auto batch = next_batch();
    while (batch && !ended()) {
      if (!train_step(std::move(*batch))) {
        batch = next_batch();
        continue;
      }
      if (listen_ && stop_signal_ == nullptr) stop_signal_ = &listen_();
      const bool more = state_.global_step < state_.max_steps;
      tell_operation("data");
      if (more) batch = next_batch();
      const bool epoch_end = more && !batch;
      if (epoch_end) {
        ++state_.epoch_index;
        state_.epoch_position = 0;
        check_targets();
      }
      log_if_due(epoch_end);  // before it is saved that these steps were not logged yet
      if (last_.stop_signal != 0 && more) {
        stop_early(epoch_end);
      } else {
        after_step(epoch_end);
      }
    }
    if (!batch && state_.epoch_position > 0) {  // resumed exactly at the end of an epoch
      ++state_.epoch_index;
      state_.epoch_position = 0;
    }
  }
  finish_trace();
  log();
  if (!nothing_left) check_targets();
  const Metrics metrics = summary(traffic_before);
  if (keeps_model) {  // the run's own; a kill may have come before its results
    checkpoints_->restore_small_files();
    const auto trained = checkpoints_->saved_metrics("train");
    checkpoints_->save_metrics("train", trained.empty() ? of_earlier_starts(metrics) : trained);
    find_end_evaluation();
    return metrics;
  }
  checkpoints_->finish();
  if (state_.skipped_steps > 0) {
    callbacks_.say(fmt::format(
        "warning: {} of {} steps {} skipped, since their gradients overflowed fp16",
        state_.skipped_steps, state_.global_step, state_.skipped_steps == 1 ? "was" : "were"));
  }
  if (stopped_by_ != 0 && !keeps_stopped_model()) return metrics;
  const bool is_best = load_best_model();
  checkpoints_->save_model(state_, is_best ? state_.best_step : state_.global_step);
  checkpoints_->save_metrics("train", nothing_left ? of_earlier_starts(metrics) : metrics);
  if (evaluated_step_ == state_.global_step) checkpoints_->save_metrics("eval", eval_metrics_);
  callbacks_.notify([&](Callback& callback) { callback.on_train_end(metrics); });
  return metrics;
}

}  // namespace convoy::train
