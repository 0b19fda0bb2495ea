#include "convoy/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "convoy/base/error.h"

namespace convoy::optim {

namespace {

/// Goes from 1 down to 0 over half a wave, for `num_cycles` = 0.5.
double cosine(double progress, double num_cycles) {
  return 0.5 * (1 + std::cos(std::numbers::pi * num_cycles * 2 * progress));
}

/// Maps a `factor` from 0 to 1 to the range from the least one to 1.
double above(double least, double factor) {
  return std::max(0.0, factor * (1 - least) + least);
}

double rising(const std::string& curve, double progress) {
  if (curve == "cosine") return 0.5 * (1 - std::cos(std::numbers::pi * progress));
  return curve == "linear" ? progress : 1 - std::sqrt(1 - progress);
}

double falling(const LrShape& shape, double progress) {
  if (shape.decay_type == "cosine") return cosine(progress, shape.num_cycles.value_or(0.5));
  return shape.decay_type == "linear" ? 1 - progress : 1 - std::sqrt(progress);
}

/// Factor of the peak: warm-up, then 1, then decay, then the least one.
double warmup_stable_decay(const LrSchedule& schedule, int64_t step) {
  const auto& shape = schedule.shape;
  const double least = shape.min_lr_ratio;
  const int64_t warmup = schedule.warmup_steps, decay = shape.num_decay_steps;
  const int64_t stable = shape.num_stable_steps.value_or(schedule.total_steps - warmup - decay);
  const auto part = [](int64_t done, int64_t all) {
    return static_cast<double>(done) / static_cast<double>(std::max<int64_t>(1, all));
  };
  if (step < warmup) return above(least, rising(shape.warmup_type, part(step, warmup)));
  if (step < warmup + stable) return 1;
  const int64_t decayed = step - warmup - stable;
  return decayed < decay ? above(least, falling(shape, part(decayed, decay))) : least;
}

}  // namespace

const std::vector<std::string>& lr_schedule_types() {
  static const std::vector<std::string> types{"linear",
                                              "cosine",
                                              "cosine_with_restarts",
                                              "cosine_with_min_lr",
                                              "polynomial",
                                              "constant",
                                              "constant_with_warmup",
                                              "inverse_sqrt",
                                              "warmup_stable_decay"};
  return types;
}

double LrSchedule::at(int64_t step) const {
  if (type == "constant") return peak;
  if (type == "warmup_stable_decay") return peak * warmup_stable_decay(*this, step);
  const auto s = static_cast<double>(step);
  const auto warmup = static_cast<double>(warmup_steps);
  if (step < warmup_steps) return peak * s / std::max(1.0, warmup);
  if (type == "constant_with_warmup") return peak;

  const double length = std::max(1.0, static_cast<double>(total_steps) - warmup);
  const double progress = (s - warmup) / length;
  if (type == "linear") return peak * std::max(0.0, 1 - progress);
  if (type == "cosine") {
    return peak * std::max(0.0, cosine(progress, shape.num_cycles.value_or(0.5)));
  }
  if (type == "cosine_with_min_lr") {
    const double least = shape.min_lr ? *shape.min_lr / peak : shape.min_lr_rate.value_or(0);
    return peak * above(least, cosine(progress, shape.num_cycles.value_or(0.5)));
  }
  if (type == "cosine_with_restarts") {
    if (progress >= 1) return 0;
    const double waves = shape.num_cycles.value_or(1) * progress;
    return peak * std::max(0.0, cosine(waves - std::floor(waves), 0.5));
  }
  if (type == "polynomial") {
    if (progress >= 1) return shape.lr_end;
    return (peak - shape.lr_end) * std::pow(1 - progress, shape.power) + shape.lr_end;
  }
  if (type == "inverse_sqrt") {
    const double timescale = shape.timescale.value_or(warmup_steps > 0 ? warmup : 10000.0);
    return peak / std::sqrt((s + timescale - warmup) / timescale);
  }
  fail<UsageError>("train", "lr_scheduler_type '{}' is unknown", type);
}

}  // namespace convoy::optim
