#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy::optim {

/// Hugging Face's learning-rate schedules: names, shapes and warm-up.
struct LrSchedule {
  std::string type = "linear";
  double peak = 5e-5;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;

  /// The learning rate of optimizer step `step`, counted from 0.
  double at(int64_t step) const;
};

/// Where the polynomial schedule ends; its peak must be above.
inline constexpr double kPolynomialEnd = 1e-7;

/// linear, cosine, cosine_with_restarts, polynomial, constant, constant_with_warmup, inverse_sqrt.
const std::vector<std::string>& lr_schedule_types();

}  // namespace convoy::optim
