#pragma once

#include <string>

#include "convoy/launch/supervise/failure.h"

namespace convoy::launch {

/// Failures after which a job starts again: so many in a row between which it gets no further than
/// it ever was. A job that goes on, hours apart, does not use up its restarts; one that fails at
/// the same place ends.
class RestartBudget {
 public:
  explicit RestartBudget(int max_restarts) : max_restarts_(max_restarts) {}

  /// Counts a failure. False: the job ends with it.
  bool take(const FailureReport& failure);
  /// Whether the last failure was in the step of the one before it.
  bool failed_again() const { return repeats_; }
  int64_t failed_step() const { return last_; }
  /// "1 of 3 restarts", and since which step they count.
  std::string to_text() const;

 private:
  int max_restarts_;
  int used_ = 0;
  int64_t furthest_ = 0;  // step under way in which a start ended
  int64_t last_ = -1;     // step of the last failure
  bool repeats_ = false;
};

}  // namespace convoy::launch
