#include <ATen/ATen.h>

#include <utility>

#include "convoy/base/activity.h"
#include "convoy/comm/to_host.h"
#include "convoy/machine/resident.h"
#include "convoy/nn/device_kernel.h"
#include "convoy/train/loop/due.h"
#include "convoy/train/loop/results.h"
#include "convoy/train/loop/trainer_impl.h"
#include "convoy/train/run_sums.h"

// Lines of the log.
namespace convoy::train {

void Trainer::Impl::log_if_due(bool epoch_end) {
  const auto& arguments = run_.arguments;
  const bool first = arguments.logging_first_step && run_.state.global_step == 1;
  if (first || is_due(arguments.logging_strategy, arguments.logging_steps, run_.state, epoch_end)) {
    log();
  }
}

void Trainer::Impl::log() {
  auto& state = run_.state;
  targets_.tell();
  if (state.logged_steps == 0) return;
  LogRecord record;
  record.step = state.global_step;
  record.max_steps = state.max_steps;
  record.epoch = state.epoch();
  record.loss = state.logged_loss_sum / static_cast<double>(state.logged_steps);
  record.grad_norm = state.last_grad_norm;
  record.learning_rate =
      learning_rate(run_.arguments, state, std::max<int64_t>(0, state.updates() - 1));
  if (run_.arguments.fp16) record.loss_scale = state.loss_scale.value;
  if (run_.keeps_sums()) {
    add_up_rows();
    record.rows_sum = sum_text(state.rows_sum);
  }
  record.skipped_steps = state.skipped_steps;
  record.memory_bytes = machine::resident_bytes();
  record.memory = memory_.note();
  record.device_memory_bytes = memory_.peak_device_bytes();
  record.goodput = goodput(run_);
  clock_.fill(record, last_step(run_.arguments, state), stream_.wait_seconds());
  if (pace_ && run_.job.is_main()) {  // may measure
    clock_.pause();
    pace_(record);
    clock_.resume();
  }
  Json entry{{"loss", record.loss},
             {"grad_norm", record.grad_norm},
             {"learning_rate", record.learning_rate},
             {"epoch", record.epoch},
             {"step", record.step}};
  for (const auto& name : run_.strategy->replica().metrics()) {
    const double sum = state.logged_metrics[name];
    record.metrics.emplace_back(name, sum / static_cast<double>(state.logged_steps));
    entry[name] = record.metrics.back().second;
  }
  state.log_history.push_back(std::move(entry));
  state.logged_loss_sum = 0;
  state.logged_metrics.clear();
  state.logged_steps = 0;
  run_.callbacks.notify([&](Callback& callback) { callback.on_log(record); });
}

/// Adds what all ranks read since the last call to the state's sum. Collective.
void Trainer::Impl::add_up_rows() {
  if (!run_.keeps_sums()) return;
  auto sum = at::full({1}, static_cast<int64_t>(std::exchange(own_rows_sum_, 0)), at::kLong);
  run_.job.groups.rows.all_reduce(sum, comm::ReduceOp::Sum, "add up the rows that were read");
  run_.state.rows_sum += static_cast<uint64_t>(comm::item<int64_t>(sum));
}

/// Hands checksums of the weights to the callbacks. Collective.
void Trainer::Impl::tell_weights() {
  if (!run_.keeps_sums()) return;
  const Doing doing("sum weights");
  const auto sums = sums_of_weights(*run_.strategy);
  run_.callbacks.notify(
      [&](Callback& callback) { callback.on_weight_sums(sums, run_.state.global_step); });
}

void Trainer::Impl::tell_failed_kernels() {
  const auto failed = nn::failed_kernels();
  for (; num_failed_kernels_ < failed.size(); ++num_failed_kernels_) {
    run_.callbacks.warn(
        fmt::format("[device] torch could not compile or run a kernel for this GPU; got '{}'; "
                    "torch's own, slower "
                    "operations run in its place",
                    failed[num_failed_kernels_]));
  }
}

void Trainer::Impl::finish_trace() try {
  if (const auto file = trace_.finish(); !file.empty()) {
    run_.callbacks.say(fmt::format("wrote the trace {}; ui.perfetto.dev shows it", file.string()));
  }
} catch (const FileError& error) {  // no reason to lose the training, too
  run_.callbacks.warn(error.what());
}

}  // namespace convoy::train
