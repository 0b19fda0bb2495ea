#pragma once

#include <chrono>
#include <deque>

#include "convoy/base/timing.h"
#include "convoy/job/job.h"
#include "convoy/train/callback.h"
#include "convoy/train/state.h"

namespace convoy::train {

/// Measures a run: time in training, without evaluation and saving, and rates since the last line.
struct Clock {
  using Steady = std::chrono::steady_clock;

  explicit Clock(const TrainerState& state) : first_step(state.global_step) {}

  void start() {
    began = resumed = Steady::now();
    running = true;
  }
  void pause() {
    trained += seconds_since(resumed);
    running = false;
  }
  void resume() {
    resumed = Steady::now();
    running = true;
  }
  double train_seconds() const { return running ? trained + seconds_since(resumed) : trained; }

  /// Rates since the last call, and the time left to `last_step` at the pace so far.
  void fill(LogRecord& record, int64_t last_step, double data_wait_so_far) {
    const double now = train_seconds();
    const double span = std::max(1e-9, now - line_began);
    record.samples_per_second = static_cast<double>(samples) / span;
    record.data_wait_percent = 100 * (data_wait_so_far - data_wait) / span;
    record.comm_wait_percent = 100 * comm_wait / span;
    const auto done = static_cast<double>(record.step - first_step);
    record.seconds_left = now / std::max(1.0, done) * static_cast<double>(last_step - record.step);
    line_began = now;
    samples = 0;
    comm_wait = 0;
    data_wait = data_wait_so_far;
  }

  void add_step(int64_t step_samples, double waited) {
    samples += step_samples;
    all_samples += step_samples;
    comm_wait += waited;
    all_comm_wait += waited;
  }

  /// Times the step that ended now.
  StepTiming timing(double data_wait_so_far) {
    StepTiming out;
    const double now = train_seconds();
    out.seconds = now - step_began;
    constexpr size_t kRecent = 256;
    if (recent.size() == kRecent) recent.pop_front();
    if (timed_steps++ > 0) recent.push_back(out.seconds);  // the first pays for what is made once
    out.data_wait = data_wait_so_far - step_data_wait;
    step_began = now;
    step_data_wait = data_wait_so_far;
    return out;
  }

  Metrics summary(const TrainerState& state) const {
    const double seconds = std::max(1e-9, seconds_since(began));
    const auto steps = static_cast<double>(state.global_step - first_step);
    Metrics metrics;
    metrics["train_runtime"] = seconds;
    metrics["train_samples_per_second"] = static_cast<double>(all_samples) / seconds;
    metrics["train_steps_per_second"] = steps / seconds;
    if (const auto made = static_cast<double>(state.counted_steps()); made > 0) {
      metrics["train_loss"] = state.total_loss_sum / made;
    }
    metrics["train_steady_seconds"] = train_seconds();
    metrics["train_steady_samples_per_second"] =
        static_cast<double>(all_samples) / std::max(1e-9, train_seconds());
    metrics["train_comm_wait_percent"] = 100 * all_comm_wait / std::max(1e-9, train_seconds());
    return metrics;
  }

  /// Seconds of a typical step among the last ones; 0 before the second.
  double step_seconds() const {
    return recent.empty() ? 0 : median({recent.begin(), recent.end()});
  }

  int64_t first_step;
  int64_t timed_steps = 0;
  std::deque<double> recent;
  bool running = false;
  int64_t samples = 0, all_samples = 0;
  double comm_wait = 0, all_comm_wait = 0, data_wait = 0, trained = 0, line_began = 0;
  double step_began = 0, step_data_wait = 0;
  Steady::time_point began = Steady::now(), resumed = began;
};

}  // namespace convoy::train
