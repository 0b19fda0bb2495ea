#include "convoy/train/loop/results.h"

#include <algorithm>
#include <atomic>

#include "convoy/launch/error_file.h"

namespace convoy::train {

namespace {

/// Loss of the last log line.
double final_loss(const Json& history) {
  for (auto entry = history.rbegin(); entry != history.rend(); ++entry) {
    if (entry->contains("loss") && entry->at("loss").is_number()) return entry->at("loss");
  }
  return 0;
}

}  // namespace

double beginning_in_job(const RunContext& run) {
  static std::atomic<bool> is_first{true};
  return is_first.exchange(false) ? std::min(run.job.environment.job_start, run.began_at)
                                  : run.began_at;
}

double goodput(const RunContext& run) {
  const double since = run.state.job_began > 0 ? run.state.job_began : run.began_at;
  return std::min(1.0, run.state.useful_seconds / std::max(1e-9, launch::wall_time() - since));
}

Metrics results(const RunContext& run, const Clock& clock, const comm::Traffic& before,
                TrainMemory& memory) {
  const auto& state = run.state;
  Metrics metrics = clock.summary(state);
  metrics["epoch"] = state.epoch();
  metrics["train_step_seconds"] = clock.step_seconds();
  metrics["train_goodput"] = goodput(run);
  if (state.counted_steps() > 0) metrics["train_final_loss"] = final_loss(state.log_history);
  const auto now = run.strategy->traffic();
  const auto steps =
      static_cast<double>(std::max<int64_t>(1, state.global_step - clock.first_step));
  metrics["train_collectives_per_step"] =
      static_cast<double>(now.collectives - before.collectives) / steps;
  metrics["train_bytes_per_step"] = static_cast<double>(now.bytes - before.bytes) / steps;
  memory.add_to(metrics);
  if (const auto* offload = run.strategy->replica().flat().offload()) {
    metrics["train_offload_wait_seconds"] = offload->wait_seconds;
  }
  if (const auto& planned = run.job.planned) {
    metrics["planned_step_seconds"] = planned->seconds;
    metrics["planned_memory_bytes_per_rank"] = static_cast<double>(planned->memory_bytes);
  }
  return metrics;
}

Metrics of_earlier_starts(const Metrics& metrics) {
  Metrics out;
  for (const char* name : {"epoch", "train_loss", "train_final_loss"}) {
    if (const auto found = metrics.find(name); found != metrics.end()) out.insert(*found);
  }
  return out;
}

}  // namespace convoy::train
