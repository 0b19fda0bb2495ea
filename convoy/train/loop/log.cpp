#include "convoy/train/loop/log.h"

#include <ATen/ATen.h>

#include <utility>

#include "convoy/base/activity.h"
#include "convoy/comm/to_host.h"
#include "convoy/gpu/failures.h"
#include "convoy/machine/resident.h"
#include "convoy/train/loop/due.h"
#include "convoy/train/loop/results.h"
#include "convoy/train/run_sums.h"

namespace convoy::train {

void TrainingLog::add_step(const parallel::StepResult& step, uint64_t rows_sum) {
  auto& state = run_.state;
  own_rows_sum_ += rows_sum;
  if (step.count == 0 || step.skipped) return;
  state.logged_loss_sum += step.loss();
  ++state.logged_steps;
  state.total_loss_sum += step.loss();
  if (step.metrics.empty()) return;
  const auto names = run_.strategy->replica().metrics();
  for (size_t i = 0; i < names.size(); ++i) {
    state.logged_metrics[names[i]] += step.metrics[i] / step.count;
  }
}

void TrainingLog::write_if_due(bool epoch_end) {
  const auto& arguments = run_.arguments;
  const bool first = arguments.logging_first_step && run_.state.global_step == 1;
  if (first || is_due(arguments.logging_strategy, arguments.logging_steps, run_.state, epoch_end)) {
    write();
  }
}

void TrainingLog::write() {
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

void TrainingLog::add_up_rows() {
  if (!run_.keeps_sums()) return;
  auto sum = at::full({1}, static_cast<int64_t>(std::exchange(own_rows_sum_, 0)), at::kLong);
  run_.job.groups.rows.all_reduce(sum, comm::ReduceOp::Sum, "add up the rows that were read");
  run_.state.rows_sum += static_cast<uint64_t>(comm::item<int64_t>(sum));
}

void TrainingLog::tell_weights() const {
  if (!run_.keeps_sums()) return;
  const Doing doing("sum weights");
  const auto sums = sums_of_weights(*run_.strategy);
  run_.callbacks.notify(
      [&](Callback& callback) { callback.on_weight_sums(sums, run_.state.global_step); });
}

void TrainingLog::tell_failed_kernels() {
  const auto failed = gpu::failed_kernels();
  for (; num_failed_kernels_ < failed.size(); ++num_failed_kernels_) {
    run_.callbacks.warn(
        fmt::format("[device] a kernel for this GPU could not be compiled or run; got '{}'; "
                    "torch's own, slower "
                    "operations run in its place",
                    failed[num_failed_kernels_]));
  }
}

}  // namespace convoy::train
