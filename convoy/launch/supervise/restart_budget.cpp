#include "convoy/launch/supervise/restart_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace convoy::launch {

bool RestartBudget::take(const FailureReport& failure) {
  int64_t step = 0;
  for (const auto& rank : failure.ranks) step = std::max(step, rank.activity.step);
  if (step > furthest_) used_ = 0;
  repeats_ = step == std::exchange(last_, step);
  furthest_ = std::max(furthest_, step);
  if (used_ >= max_restarts_ || !failure.worth_a_restart()) return false;
  ++used_;
  return true;
}

std::string RestartBudget::to_text() const {
  const auto since = furthest_ > 0 ? fmt::format(" since it reached step {}", furthest_) : "";
  return fmt::format("{} of {} restarts{}", used_, max_restarts_, since);
}

}  // namespace convoy::launch
