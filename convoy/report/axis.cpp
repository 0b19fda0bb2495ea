#include "convoy/report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/text.h"

namespace convoy::report {

ChartAxis::ChartAxis(double low, double high, double from, double to, bool log_scale,
                     int about_num_ticks)
    : from_(from), to_(to), log_(log_scale && low > 0 && std::isfinite(high)) {
  if (!std::isfinite(low) || !std::isfinite(high)) {
    low = 0;
    high = 1;
  }
  // Charts need no more than that, and sums of larger numbers overflow.
  low = std::clamp(low, -1e300, 1e300);
  high = std::clamp(high, -1e300, 1e300);
  const double least = std::max(std::abs(low), std::abs(high)) * 1e-9;
  if (!(high - low > least)) {
    const double extra = low == 0 ? 1 : std::abs(low) * (log_ ? 0.5 : 0.1);
    low -= extra;
    high += extra;
  }
  if (log_) {
    log_ticks(low, high, about_num_ticks);
  } else {
    linear_ticks(low, high, about_num_ticks);
  }
}

void ChartAxis::linear_ticks(double low, double high, int about_num_ticks) {
  const double rough = (high - low) / std::max(1, about_num_ticks);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double digit = rough / power;
  step_ = power * (digit < 1.5 ? 1 : digit < 3 ? 2 : digit < 7 ? 5 : 10);
  low_ = std::floor(low / step_ + 1e-9) * step_;
  high_ = std::ceil(high / step_ - 1e-9) * step_;
  const auto num_steps = std::lround((high_ - low_) / step_);
  for (long i = 0; i <= num_steps; ++i) {
    const double tick = low_ + static_cast<double>(i) * step_;
    ticks_.push_back(std::abs(tick) < step_ / 2 ? 0 : tick);
  }
}

void ChartAxis::log_ticks(double low, double high, int about_num_ticks) {
  const double decades = std::log10(high / low);
  if (decades < 1.2) {
    linear_ticks(low, high, about_num_ticks);
    low_ = low;
    high_ = high;
    std::erase_if(ticks_, [&](double tick) { return tick < low || tick > high; });
    return;
  }
  const std::vector<double> digits =
      decades < 2.5 ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
  const int stride = std::max(1, static_cast<int>(decades / 8));
  low_ = low;
  high_ = high;
  for (int power = static_cast<int>(std::floor(std::log10(low))); power <= std::log10(high);
       power += stride) {
    for (double digit : digits) {
      const double tick = digit * std::pow(10, power);
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks_.push_back(tick);
    }
  }
}

double ChartAxis::operator()(double value) const {
  const double part = log_ ? std::log(std::max(value, low_ * 1e-3) / low_) / std::log(high_ / low_)
                           : (value - low_) / (high_ - low_);
  return from_ + std::clamp(part, -1.0, 2.0) * (to_ - from_);
}

std::string ChartAxis::label(double tick) const {
  const double size = std::abs(tick);
  if (tick == 0) return "0";
  if (size >= 1e7 || size < 1e-4) return fmt::format("{:.3g}", tick);
  const double grain = step_ == 0 ? size : step_;
  const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(grain) + 1e-9)));
  if (decimals == 0) return human_count(std::llround(tick));
  return fmt::format("{:.{}f}", tick, decimals);
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size >= 1e9 || size < 1e-3) return fmt::format("{:.3g}", value);
  if (size >= 100) return human_count(std::llround(value));
  return fmt::format("{:.{}f}", value, size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : 4);
}

}  // namespace convoy::report
