#include "convoy/train/trainer.h"

#include <ATen/Functions.h>

#include <cmath>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/base/files.h"
#include "convoy/comm/agree.h"
#include "convoy/comm/device.h"
#include "convoy/optim/lr_schedule.h"
#include "convoy/train/clock.h"
#include "convoy/train/console.h"
#include "convoy/train/log_file.h"
#include "convoy/train/memory.h"
#include "convoy/train/numerics.h"
#include "convoy/train/tensorboard.h"

namespace convoy::train {

namespace {

constexpr int64_t kTraceWarmup = 3;  // steps

/// The loss of the last log line.
double final_loss(const Json& history) {
  for (auto entry = history.rbegin(); entry != history.rend(); ++entry) {
    if (entry->contains("loss")) return entry->at("loss");
  }
  return 0;
}

}  // namespace

Trainer::Trainer(parallel::ModelFactory factory, TrainingArguments arguments,
                 std::shared_ptr<Dataset> train_data, std::shared_ptr<Dataset> eval_data)
    : Trainer(std::move(factory), arguments, std::move(train_data), std::move(eval_data),
              join_job(arguments.parallel)) {}

Trainer::Trainer(parallel::ModelFactory factory, TrainingArguments arguments,
                 std::shared_ptr<Dataset> train_data, std::shared_ptr<Dataset> eval_data, Job job,
                 Fill fill)
    : arguments_(std::move(arguments)),
      train_data_(std::move(train_data)),
      eval_data_(std::move(eval_data)),
      job_(std::move(job)),
      best_(arguments_) {
  arm_fault(job_.environment.rank, job_.environment.restart_count);
  auto& from = arguments_.resume_from_checkpoint;
  may_resume_ = from != "false" && from != "False";
  if (!may_resume_) from.clear();
  if (from == "true" || from == "True") from = "latest";
  const auto told = [this](const std::string& text) { warn(text); };
  add_callback(make_log_file(told));
  add_callback(make_console(arguments_.output.quiet));
  // Errors now rather than at the first evaluation.
  arguments_.check(train_data_ != nullptr, eval_data_ != nullptr);
  per_device(arguments_.per_device_train_batch_size);
  if (eval_data_) per_device(arguments_.per_device_eval_batch_size);
  if (arguments_.report_to == "tensorboard") {
    add_callback(make_tensorboard(arguments_.events_folder(), told));
  }
  if (arguments_.tf32 && job_.devices.at(0).is_cpu()) {
    fail<UsageError>("train", "tf32 is for GPUs; got the CPU; try leaving it out, or bf16");
  }
  if (arguments_.deterministic && job_.devices.at(0).is_cuda()) make_gpus_deterministic();
  parallel::ReplicaOptions options;
  options.device = job_.devices.at(0);
  options.compute_dtype = arguments_.bf16   ? at::kBFloat16
                          : arguments_.fp16 ? at::kHalf
                                            : at::kFloat;
  options.num_micro_batches = arguments_.gradient_accumulation_steps;
  options.bucket_bytes = arguments_.parallel.bucket_cap_mb << 20;
  options.zero = static_cast<int>(arguments_.parallel.zero);
  options.prefetch = arguments_.parallel.prefetch;
  options.reshard_after_forward = arguments_.parallel.reshard_after_forward;
  options.reduce_each = arguments_.parallel.zero_reduce == "each";
  options.seed = static_cast<uint64_t>(arguments_.seed);
  options.trains = train_data_ != nullptr;
  options.recompute = train_data_ != nullptr && arguments_.gradient_checkpointing;
  options.fill = std::move(fill);
  if (!from.empty()) options.fill = [](parallel::Replica&) {};  // the checkpoint holds everything
  factory = check_memory(
      std::move(factory), arguments_,
      std::max(job_.environment.local_world_size, static_cast<int>(job_.devices.size())));
  strategy_ =
      job_.strategy == "dp"
          ? parallel::make_thread_strategy(factory, job_.devices, options, job_.threads,
                                           std::chrono::seconds(arguments_.parallel.timeout))
          : parallel::make_process_strategy(factory, job_.data_groups(), options);
}

Trainer::~Trainer() = default;

int64_t Trainer::per_device(int64_t configured) const {
  if (job_.strategy != "dp" || arguments_.parallel.dp_batch != "total") return configured;
  const auto devices = static_cast<int64_t>(job_.devices.size());
  if (configured % devices != 0) {
    fail<UsageError>("train", "a total batch of {} does not divide over {} devices; try {}",
                     configured, devices, (configured / devices + 1) * devices);
  }
  return configured / devices;
}

StreamOptions Trainer::stream_options(bool training) const {
  StreamOptions options;
  // DataParallel reads the batches of all its devices as one stream, cell by cell.
  options.layout.world = strategy_->processes().size();
  options.layout.rank = strategy_->processes().rank();
  options.layout.accumulation =
      (training ? arguments_.gradient_accumulation_steps : 1) * strategy_->num_local_ranks();
  options.layout.per_device_batch = per_device(training ? arguments_.per_device_train_batch_size
                                                        : arguments_.per_device_eval_batch_size);
  options.seed = static_cast<uint64_t>(arguments_.data_seed.value_or(arguments_.seed));
  options.shuffle = training;
  options.drop_last = training && arguments_.dataloader_drop_last;
  options.every_rank_needs_rows = training;
  return options;
}

int64_t Trainer::every(double value) const {
  double steps = value < 1 ? std::ceil(value * static_cast<double>(state_.max_steps)) : value;
  return std::max<int64_t>(1, static_cast<int64_t>(steps));
}

void Trainer::prepare() {
  stream_ = train_data_->open(stream_options(true));
  const int64_t per_epoch = std::max<int64_t>(1, stream_->steps_per_epoch());
  if (stream_->steps_per_epoch() == 0) {
    fail<UsageError>("train",
                     "an epoch of {} rows has no full batch of {} rows and "
                     "dataloader_drop_last leaves the rest out; try a smaller batch size",
                     stream_->num_rows(), stream_options(true).layout.step_samples());
  }
  check_best_metric(arguments_.metric_for_best_model, make_scorer_);
  state_ = {};
  state_.num_rows = stream_->num_rows();
  state_.step_samples = stream_options(true).layout.step_samples();
  state_.data_seed = stream_options(true).seed;
  state_.data_order = stream_->order();
  if (arguments_.max_steps > 0) {
    state_.max_steps = arguments_.max_steps;
    state_.num_train_epochs =
        std::ceil(static_cast<double>(arguments_.max_steps) / static_cast<double>(per_epoch));
  } else {
    state_.num_train_epochs = arguments_.num_train_epochs;
    state_.max_steps = static_cast<int64_t>(
        std::ceil(arguments_.num_train_epochs * static_cast<double>(per_epoch)));
  }
  state_.job_id = job_.environment.job_id;
  resume();

  RunInfo info;
  info.job = &job_;
  info.arguments = &arguments_;
  info.num_examples = state_.num_rows;
  const auto& arena = strategy_->replica().arena();
  info.num_parameters = arena.num_parameters();
  info.num_trainable_parameters = arena.num_trainable_parameters();
  info.memory = strategy_->replica().memory();
  info.per_device_batch = per_device(arguments_.per_device_train_batch_size);
  info.total_batch = state_.step_samples;
  info.steps_per_epoch = per_epoch;
  info.max_steps = state_.max_steps;
  info.first_step = state_.global_step;
  info.resumed_from = resumed_from_;
  info.placements = gather_placements(job_);
  info.shares = stream_->partition_summary();
  info.warnings = job_.warnings;
  if (arguments_.parallel.zero > 0 && job_.num_ranks() == 1) {
    info.warnings.push_back(
        fmt::format("zero = {} shares nothing out on one rank; try convoy launch -n 2 train ...",
                    arguments_.parallel.zero));
  } else if (arguments_.parallel.zero == 3 && arena.layout().num_buckets() == 1) {
    info.warnings.push_back(
        "zero = 3 gathers the whole model at once: it is one block, or smaller than bucket_cap_mb; "
        "try a smaller --bucket_cap_mb, or give the model as a list of blocks");
  }
  for (auto& warning : stream_->warnings()) info.warnings.push_back(std::move(warning));
  for (auto& warning : arguments_.doubts(state_.max_steps)) {
    info.warnings.push_back(std::move(warning));
  }
  stopped_early_ = best_.out_of_patience(state_) && state_.global_step < state_.max_steps;
  if (ended()) {
    info.warnings.push_back(
        fmt::format("nothing is left to train: {} stands at step {} of {}{}; try more {}",
                    resumed_from_.empty() ? "the run" : resumed_from_, state_.global_step,
                    state_.max_steps, stopped_early_ ? ", where it stopped early" : "",
                    stopped_early_ ? "early_stopping_patience" : "num_train_epochs or max_steps"));
  }
  // What is wrong with the evaluation data should show now.
  if (eval_data_) {
    auto first = eval_data_->open(stream_options(false));
    first->start(0, 0);
    first->next();
  }
  notify([&](Callback& callback) { callback.on_train_begin(info); });
}

double Trainer::learning_rate(int64_t step) const {
  optim::LrSchedule schedule;
  schedule.type = arguments_.lr_scheduler_type;
  schedule.peak = arguments_.learning_rate;
  schedule.total_steps = state_.max_steps;
  schedule.warmup_steps =
      arguments_.warmup_steps > 0
          ? arguments_.warmup_steps
          : static_cast<int64_t>(
                std::ceil(arguments_.warmup_ratio * static_cast<double>(state_.max_steps)));
  return schedule.at(step);
}

void Trainer::add_traffic(Metrics& metrics, const comm::Traffic& before, int64_t steps) {
  const auto now = strategy_->traffic();
  const auto each = static_cast<double>(std::max<int64_t>(1, steps));
  metrics["train_exchanges_per_step"] =
      static_cast<double>(now.exchanges - before.exchanges) / each;
  metrics["train_bytes_per_step"] = static_cast<double>(now.bytes - before.bytes) / each;
  auto peak = at::tensor({peak_resident_bytes(), peak_device_bytes()}, at::kLong);
  job_.group.all_reduce(peak, comm::ReduceOp::Max, "reduce peak memory");
  metrics["peak_memory_bytes_per_rank"] = peak[0].item<double>();
  const auto on_device = peak[1].item<double>();
  if (on_device > 0) metrics["peak_device_memory_bytes_per_rank"] = on_device;
}

int64_t Trainer::peak_device_bytes() const {
  int64_t most = 0;
  for (const auto& device : job_.devices) most = std::max(most, comm::peak_device_bytes(device));
  return most;
}

void Trainer::train_step(StepCells cells, Clock& clock) {
  const int64_t samples = cells.end - cells.s0, tokens = cells.num_tokens;
  const auto local = static_cast<size_t>(strategy_->num_local_ranks());
  std::vector<std::vector<parallel::MicroBatch>> split(local);
  for (size_t c = 0; c < cells.cells.size(); ++c) {
    split[c % local].push_back(std::move(cells.cells[c]));
  }
  parallel::StepInput input;
  input.seed = static_cast<uint64_t>(arguments_.seed);
  input.step = state_.global_step;
  input.updates = state_.global_step - state_.skipped_steps;
  input.learning_rate = learning_rate(input.updates);
  input.stop_signal = stop_signal_;
  input.busy = writes_checkpoint();
  if (arguments_.fp16) input.loss_scale = loss_scale(samples, tokens);
  parallel::OptimizerOptions optimizer;
  optimizer.adamw = {arguments_.adam_beta1, arguments_.adam_beta2, arguments_.adam_epsilon,
                     arguments_.weight_decay};
  optimizer.max_grad_norm = arguments_.max_grad_norm;
  trace_.begin_step();
  tell_step(state_.global_step + 1);
  {
    const Tf32 products(arguments_.tf32);
    last_ = strategy_->step(split, input, optimizer);
  }
  if (trace_.end_step()) finish_trace();
  if (last_.num_busy == 0) finish_save();
  num_targets_ += last_.count;
  ++state_.global_step;
  state_.epoch_position = cells.end;
  if (arguments_.fp16) update_loss_scale(samples);
  if (!last_.skipped) {
    state_.logged_loss_sum += last_.loss();
    ++state_.logged_steps;
    state_.total_loss_sum += last_.loss();
  }
  clock.add_step(samples, last_.wait_seconds);
  StepTiming timing = clock.timing(stream_->wait_seconds());
  timing.step = state_.global_step;
  timing.loss = last_.loss();
  timing.samples = samples;
  timing.comm_wait = last_.wait_seconds;
  timing.local_tokens = tokens;
  notify([&](Callback& callback) { callback.on_step(timing); });
}

/// The same on all ranks. Before the first step every token counts as a target.
double Trainer::loss_scale(int64_t samples, int64_t tokens) {
  auto& scale = state_.loss_scale;
  if (scale.targets_per_sample == 0) {
    auto all = at::full({1}, tokens, at::kLong);
    job_.group.all_reduce(all, comm::ReduceOp::Sum, "count tokens");
    scale.targets_per_sample = std::max(1.0, all.item<double>() / static_cast<double>(samples));
  }
  return scale.of_sum(samples);
}

void Trainer::update_loss_scale(int64_t samples) {
  auto& scale = state_.loss_scale;
  if (last_.count > 0) scale.targets_per_sample = last_.count / static_cast<double>(samples);
  state_.loss_scale.update(last_.skipped);
  state_.skipped_steps += last_.skipped;
  if (state_.loss_scale.value < 1) {
    fail<NumericError>("train",
                       "the gradient of step {} is not finite whatever the loss scale; try bf16, a "
                       "lower learning_rate, or look for NaN in the data",
                       state_.global_step);
  }
}

void Trainer::log(Clock& clock) {
  if (state_.logged_steps == 0) return;
  LogRecord record;
  record.step = state_.global_step;
  record.max_steps = state_.max_steps;
  record.epoch = state_.epoch();
  record.loss = state_.logged_loss_sum / static_cast<double>(state_.logged_steps);
  record.grad_norm = last_.grad_norm;
  record.learning_rate =
      learning_rate(std::max<int64_t>(0, state_.global_step - state_.skipped_steps - 1));
  if (arguments_.fp16) record.loss_scale = state_.loss_scale.value;
  record.skipped_steps = state_.skipped_steps;
  record.memory_bytes = resident_bytes();
  record.device_memory_bytes = peak_device_bytes();
  clock.fill(record, stream_->wait_seconds());
  if (pace_ && job_.is_main()) {  // may measure
    clock.pause();
    pace_(record);
    clock.resume();
  }
  state_.log_history.push_back({{"loss", record.loss},
                                {"grad_norm", record.grad_norm},
                                {"learning_rate", record.learning_rate},
                                {"epoch", record.epoch},
                                {"step", record.step}});
  state_.logged_loss_sum = 0;
  state_.logged_steps = 0;
  notify([&](Callback& callback) { callback.on_log(record); });
}

bool Trainer::is_due(const std::string& when, double steps, bool epoch_end) const {
  if (when == "steps") return state_.global_step % every(steps) == 0;
  return when == "epoch" && (epoch_end || state_.global_step >= state_.max_steps);
}

void Trainer::after_step(bool epoch_end, Clock& clock) {
  const bool first = arguments_.logging_first_step && state_.global_step == 1;
  if (first || is_due(arguments_.logging_strategy, arguments_.logging_steps, epoch_end)) log(clock);
  clock.pause();
  const bool better = evaluation_is_due(epoch_end) && evaluate_now();
  // A run that saves also saves its end, so that more steps can follow.
  const bool end = ended() && arguments_.save_strategy != "no";
  if (end || is_due(arguments_.save_strategy, arguments_.save_steps, epoch_end) ||
      (better && arguments_.load_best_model_at_end)) {
    save_checkpoint();
  }
  clock.resume();
}

void Trainer::finish_trace() try {
  if (const auto file = trace_.finish(); !file.empty()) {
    say(fmt::format("wrote the trace {}; ui.perfetto.dev shows it", file.string()));
  }
} catch (const FileError& error) {  // no reason to lose the training, too
  warn(error.what());
}

void Trainer::warn(const std::string& text) {
  say("warning: " + text);
  if (!job_.is_main()) fmt::print(stderr, "warning: rank {}: {}\n", job_.environment.rank, text);
}

std::optional<StepCells> Trainer::next_cells() {
  auto cells = fault_ends_data() ? std::nullopt : stream_->next();
  // Resumed with another total batch, the last full step of an epoch may not fit any more.
  const auto all = std::min(stream_->steps_per_epoch() * state_.step_samples, state_.num_rows);
  const auto least = arguments_.dataloader_drop_last ? state_.step_samples : 1;
  if (!cells && all - state_.epoch_position >= least) {
    fail<FileError>("data",
                    "rank {} has no rows left after {} of the {} rows of an epoch; has a file "
                    "changed since the start, or do the ranks read different data?",
                    job_.environment.rank, state_.epoch_position, state_.num_rows);
  }
  return cells;
}

void Trainer::inject_fault(const char* phase) {
  const auto fault = fault_at(phase);
  if (fault == Fault::kMismatch) job_.group.barrier("injected fault");
  if (fault != Fault::kNan) return;
  at::NoGradGuard no_grad;
  auto& arena = strategy_->replica().arena();
  arena.masters().fill_(NAN);
  arena.publish_weights();
}

void Trainer::check_targets() const {
  if (num_targets_ > 0) return;
  fail<UsageError>("train",
                   "no row of the training data has a target; expected rows of at least two "
                   "positions");
}

Metrics Trainer::train() {
  if (!train_data_) fail<UsageError>("train", "there is no training data; got none");
  tell_operation("start");
  stopped_by_ = 0;
  prepare();
  inject_fault("start");
  const bool nothing_left = ended();
  // Asked before any rank can write one: all ranks must decide alike.
  const bool keeps_model = nothing_left && comm::ask_main(job_.group, "look for a model", [&] {
                                             return holds_model();
                                           }).get<bool>();
  Clock clock(state_);
  const auto traffic_before = strategy_->traffic();
  if (arguments_.eval_on_start && eval_data_ && state_.global_step == 0) {
    eval_metrics_ = evaluate();
    notify([&](Callback& callback) { callback.on_evaluate(eval_metrics_, 0); });
  }
  make_up_evaluation();
  trace_ = Trace(arguments_.output.trace, job_.environment.rank, job_.environment.world_size,
                 state_.max_steps - state_.global_step > kTraceWarmup ? kTraceWarmup : 0,
                 arguments_.output.trace_steps);
  stop_signal_ = nullptr;
  clock.start();
  while (!ended()) {
    stream_->start(state_.epoch_index, state_.epoch_position);
    auto cells = next_cells();
    while (cells && !ended()) {
      train_step(std::move(*cells), clock);
      if (listen_ && stop_signal_ == nullptr) stop_signal_ = &listen_();
      const bool more = state_.global_step < state_.max_steps;
      tell_operation("data");
      if (more) cells = next_cells();
      const bool epoch_end = more && !cells;
      if (epoch_end) {
        ++state_.epoch_index;
        state_.epoch_position = 0;
        check_targets();
      }
      if (last_.stop_signal != 0 && more) {
        stop_early(epoch_end, clock);
      } else {
        after_step(epoch_end, clock);
      }
    }
    if (!cells && state_.epoch_position > 0) {  // resumed exactly at the end of an epoch
      ++state_.epoch_index;
      state_.epoch_position = 0;
    }
  }
  finish_trace();
  log(clock);
  if (!nothing_left) check_targets();
  Metrics metrics = clock.summary(state_);
  metrics["epoch"] = state_.epoch();
  metrics["train_final_loss"] = final_loss(state_.log_history);
  add_traffic(metrics, traffic_before, state_.global_step - clock.first_step);
  if (keeps_model) {  // the run's own, with the results of its evaluation
    evaluated_step_ = state_.global_step;
    return metrics;
  }
  finish_save();
  if (stopped_by_ != 0) return metrics;
  load_best_model();
  save_model();
  save_metrics("train", metrics);
  if (!eval_metrics_.empty()) save_metrics("eval", eval_metrics_);
  notify([&](Callback& callback) { callback.on_train_end(metrics); });
  return metrics;
}

}  // namespace convoy::train
