#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace convoy::shm {

/// Longest sleep of a waiting rank before it looks who is still alive.
inline constexpr std::chrono::milliseconds kLook{20};

/// A counter in shared memory that others wait for. It only grows, and wraps around.
struct alignas(64) Counter {
  std::atomic<uint32_t> value;
  std::atomic<uint32_t> sleepers;

  bool reached(uint32_t target) const {
    return static_cast<int32_t>(value.load(std::memory_order_acquire) - target) >= 0;
  }

  /// Makes everything written before visible to whoever sees the new value, and wakes sleepers.
  void advance_to(uint32_t target);

  /// Advances by one, for a counter with several writers.
  void ring();

  /// Looks again and again for `spins` rounds.
  bool spin(uint32_t target, int spins) const;

  /// Looks again and again like spin(), and lets others run on this core in between.
  bool yield(uint32_t target, int times) const;

  /// Sleeps until the counter changes from below `target`, or the time is over. May wake early.
  void sleep(uint32_t target, std::chrono::milliseconds time);

  /// Wakes all sleepers although nothing changed.
  void wake();
};

}  // namespace convoy::shm
