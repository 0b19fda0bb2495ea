#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

// What time it is for a thread that sleeps in the place of computing and of sending. One that a
// busy machine wakes up late, or that its program kept for a moment, begins its next sleep where
// the last one should have ended: so two cores carry eight ranks, and lateness does not add up.
namespace convoy::parallel::own_time {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

/// A thread that is later than this does not make up for it.
constexpr auto kLate = std::chrono::milliseconds(4);

inline Clock::duration of_seconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

inline thread_local Time last{};  ///< when this thread's last sleep should have ended

/// How often threads were too late: times that were measured meanwhile are the machine's.
inline std::atomic<int> times_late{0};

inline Time now() {
  const auto clock = Clock::now();
  if (clock - last <= kLate) return last;
  ++times_late;
  return last = clock;
}

/// What this thread waited for came to its end then.
inline void reach(Time time) {
  last = std::max(last, time);
}

inline void sleep_until(Time time) {
  reach(time);
  std::this_thread::sleep_until(last);
}

inline void sleep_for(double seconds) {
  sleep_until(now() + of_seconds(seconds));
}

}  // namespace convoy::parallel::own_time
