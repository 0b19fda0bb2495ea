#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"
#include "convoy/machine/resident.h"
#include "convoy/train/loop/trainer_impl.h"
#include "convoy/train/memory_use.h"
#include "convoy/train/run_sums.h"

// Lines of the log, and the results of a training.
namespace convoy::train {

namespace {

/// The loss of the last log line.
double final_loss(const Json& history) {
  for (auto entry = history.rbegin(); entry != history.rend(); ++entry) {
    if (entry->contains("loss") && entry->at("loss").is_number()) return entry->at("loss");
  }
  return 0;
}

}  // namespace

Metrics Trainer::Impl::summary(const comm::Traffic& before) {
  Metrics metrics = clock_.summary(state_);
  metrics["epoch"] = state_.epoch();
  if (state_.counted_steps() > 0) metrics["train_final_loss"] = final_loss(state_.log_history);
  const auto now = strategy_->traffic();
  const auto steps =
      static_cast<double>(std::max<int64_t>(1, state_.global_step - clock_.first_step));
  metrics["train_collectives_per_step"] =
      static_cast<double>(now.collectives - before.collectives) / steps;
  metrics["train_bytes_per_step"] = static_cast<double>(now.bytes - before.bytes) / steps;
  auto peak = at::tensor({machine::peak_resident_bytes(), peak_device_bytes()}, at::kLong);
  job_.world().all_reduce(peak, comm::ReduceOp::Max, "reduce peak memory");
  metrics["peak_memory_bytes_per_rank"] = comm::item<double>(peak[0]);
  if (const auto* offload = strategy_->replica().flat().offload()) {
    metrics["train_offload_wait_seconds"] = offload->wait_seconds;
  }
  note_memory();
  const auto stages = largest(most_memory_, job_.world());
  for (const auto& [kind, bytes] : kinds_of(largest(stages))) {
    metrics["memory_" + kind + "_bytes_per_rank"] = static_cast<double>(bytes);
  }
  for (size_t s = 0; stages.size() > 1 && s < stages.size(); ++s) {
    metrics[fmt::format("memory_bytes_of_stage_{}", s)] = static_cast<double>(stages[s].sum());
  }
  if (job_.planned) {
    metrics["planned_step_seconds"] = job_.planned->seconds;
    metrics["planned_memory_bytes_per_rank"] = static_cast<double>(job_.planned->memory_bytes);
  }
  metrics["train_step_seconds"] = clock_.step_seconds();
  int64_t most = 0;
  for (const auto& stage : stages) most = std::max(most, stage.sum());
  metrics["memory_bytes_per_rank"] = static_cast<double>(most);
  const auto on_device = comm::item<double>(peak[1]);
  if (on_device > 0) metrics["peak_device_memory_bytes_per_rank"] = on_device;
  return metrics;
}

/// Memory of the largest rank since the last call.
parallel::MemoryUse Trainer::Impl::note_memory() {
  const auto now = take_memory_use(*strategy_);
  most_memory_.resize(now.size());
  for (size_t s = 0; s < now.size(); ++s) most_memory_[s] = largest(most_memory_[s], now[s]);
  return largest(now);
}

int64_t Trainer::Impl::peak_device_bytes() const {
  int64_t most = 0;
  for (const auto& device : job_.devices) most = std::max(most, comm::peak_device_bytes(device));
  return most;
}

void Trainer::Impl::log() {
  tell_steps_without_targets();
  if (state_.logged_steps == 0) return;
  LogRecord record;
  record.step = state_.global_step;
  record.max_steps = state_.max_steps;
  record.epoch = state_.epoch();
  record.loss = state_.logged_loss_sum / static_cast<double>(state_.logged_steps);
  record.grad_norm = state_.last_grad_norm;
  record.learning_rate = learning_rate(std::max<int64_t>(0, state_.updates() - 1));
  if (arguments_.fp16) record.loss_scale = state_.loss_scale.value;
  if (keeps_sums()) {
    add_up_rows();
    record.rows_sum = sum_text(state_.rows_sum);
  }
  record.skipped_steps = state_.skipped_steps;
  record.memory_bytes = machine::resident_bytes();
  record.memory = note_memory();
  record.device_memory_bytes = peak_device_bytes();
  clock_.fill(record, data_wait());
  if (pace_ && job_.is_main()) {  // may measure
    clock_.pause();
    pace_(record);
    clock_.resume();
  }
  Json entry{{"loss", record.loss},
             {"grad_norm", record.grad_norm},
             {"learning_rate", record.learning_rate},
             {"epoch", record.epoch},
             {"step", record.step}};
  for (const auto& name : strategy_->replica().metrics()) {
    const double sum = state_.logged_metrics[name];
    record.metrics.emplace_back(name, sum / static_cast<double>(state_.logged_steps));
    entry[name] = record.metrics.back().second;
  }
  state_.log_history.push_back(std::move(entry));
  state_.logged_loss_sum = 0;
  state_.logged_metrics.clear();
  state_.logged_steps = 0;
  callbacks_.notify([&](Callback& callback) { callback.on_log(record); });
}

void Trainer::Impl::log_if_due(bool epoch_end) {
  const bool first = arguments_.logging_first_step && state_.global_step == 1;
  if (first || is_due(arguments_.logging_strategy, arguments_.logging_steps, epoch_end)) log();
}

}  // namespace convoy::train
