#include "convoy/train/stop_poll.h"
#include "convoy/comm/to_host.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace convoy::train {

constexpr double kPollSeconds = 0.5;

int StopPoll::after_step() {
  if (group_ == nullptr || ++steps_ < interval_) return 0;
  const std::chrono::duration<double> took = Clock::now() - last_;
  // The slowest rank's time of a step, so that all ask again after the same one.
  auto told = at::tensor({signal_ != nullptr ? static_cast<double>(signal_->load()) : 0.0,
                          took.count() / static_cast<double>(steps_)},
                         at::kDouble);
  group_->all_reduce(told, comm::ReduceOp::Max, "look for a stop signal");
  const double step_seconds = std::max(comm::item<double>(told[1]), 1e-6);
  interval_ =
      std::clamp<int64_t>(static_cast<int64_t>(kPollSeconds / step_seconds), 1, 2 * interval_);
  steps_ = 0;
  last_ = Clock::now();
  return static_cast<int>(comm::item<double>(told[0]));
}

}  // namespace convoy::train
