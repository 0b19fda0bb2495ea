#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace convoy::optim {

/// Settings of a schedule beyond its name: Hugging Face's `lr_scheduler_kwargs`. What is not given
/// has the default of `transformers`.
struct LrShape {
  std::optional<double> num_cycles;  ///< waves of a cosine: 0.5; of cosine_with_restarts: 1
  double lr_end = 1e-7;              ///< of polynomial
  double power = 1;                  ///< of polynomial
  std::optional<double> timescale;   ///< of inverse_sqrt: warm-up steps, or 10,000
  std::optional<double> min_lr, min_lr_rate;  ///< of cosine_with_min_lr: one of them
  int64_t num_decay_steps = 0;                ///< of warmup_stable_decay
  std::optional<int64_t> num_stable_steps;    ///< of warmup_stable_decay: all that are left
  std::string warmup_type = "linear", decay_type = "cosine";  ///< or cosine, linear, 1-sqrt
  double min_lr_ratio = 0;                                    ///< of warmup_stable_decay

  /// Settings of a schedule from a JSON object; "" = defaults. Throws UsageError: another kind of
  /// JSON, a key that the schedule does not have, a value out of range, or one that it needs.
  static LrShape read(const std::string& type, const std::string& json);
};

/// Hugging Face's learning-rate schedules: names, shapes and warm-up.
struct LrSchedule {
  std::string type = "linear";
  double peak = 5e-5;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  LrShape shape = {};

  /// Returns the learning rate of optimizer step `step`, counted from 0.
  double at(int64_t step) const;
};

/// Names of the schedules: linear, cosine, cosine_with_restarts, cosine_with_min_lr, polynomial,
/// constant, constant_with_warmup, inverse_sqrt, warmup_stable_decay.
const std::vector<std::string>& lr_schedule_types();

}  // namespace convoy::optim
