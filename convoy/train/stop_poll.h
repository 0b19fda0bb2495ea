#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "convoy/comm/group.h"

namespace convoy::train {

/// Asks the ranks about twice a second whether one of them was told to stop, in a loop whose steps
/// they all make.
class StopPoll {
 public:
  /// `signal` is this rank's; null for none. Without a group nobody is asked. Both must outlive it.
  StopPoll(const comm::Group* group, const std::atomic<int>* signal)
      : group_(group), signal_(signal) {}

  /// Returns the signal on all ranks after the same step; 0 while there is none. Collective.
  int after_step();

 private:
  using Clock = std::chrono::steady_clock;

  const comm::Group* group_;
  const std::atomic<int>* signal_;
  Clock::time_point last_ = Clock::now();
  int64_t steps_ = 0;     // since the ranks were asked
  int64_t interval_ = 1;  // steps from one time to the next
};

}  // namespace convoy::train
