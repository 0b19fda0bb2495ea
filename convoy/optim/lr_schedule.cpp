#include "convoy/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "convoy/base/error.h"

namespace convoy::optim {

const std::vector<std::string>& lr_schedule_types() {
  static const std::vector<std::string> types{"linear",      "cosine",   "cosine_with_restarts",
                                              "polynomial",  "constant", "constant_with_warmup",
                                              "inverse_sqrt"};
  return types;
}

double LrSchedule::at(int64_t step) const {
  if (type == "constant") return peak;
  const auto s = static_cast<double>(step);
  const auto warmup = static_cast<double>(warmup_steps);
  if (step < warmup_steps) return peak * s / std::max(1.0, warmup);
  if (type == "constant_with_warmup") return peak;

  const double length = std::max(1.0, static_cast<double>(total_steps) - warmup);
  const double progress = (s - warmup) / length;
  if (type == "linear") return peak * std::max(0.0, 1 - progress);
  if (type == "cosine") {
    return peak * std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * progress)));
  }
  if (type == "cosine_with_restarts") {
    if (progress >= 1) return 0;
    double within = progress - std::floor(progress);
    return peak * std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * within)));
  }
  if (type == "polynomial") {
    if (progress >= 1) return kPolynomialEnd;
    return (peak - kPolynomialEnd) * (1 - progress) + kPolynomialEnd;
  }
  if (type == "inverse_sqrt") {
    const double timescale = warmup_steps > 0 ? warmup : 10000.0;
    return peak / std::sqrt((s + timescale - warmup) / timescale);
  }
  fail<UsageError>("optim", "lr_scheduler_type '{}' is unknown", type);
}

}  // namespace convoy::optim
