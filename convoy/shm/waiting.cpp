#include "convoy/shm/waiting.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace convoy::shm {

namespace {

/// Calls the system's futex, not of the private kind: the word is shared between processes.
void futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* time) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, time, nullptr, 0);
}

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Counter::advance_to(uint32_t target) {
  // Sequentially consistent, as is the sleeper's announcement: one of the two sees the other.
  value.store(target, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0) wake();
}

void Counter::ring() {
  value.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0) wake();
}

bool Counter::spin(uint32_t target, int spins) const {
  for (int i = 0; i < spins; ++i) {
    if (reached(target)) return true;
    pause();
  }
  return reached(target);
}

bool Counter::yield(uint32_t target, int times) const {
  for (int i = 0; i < times; ++i) {
    if (reached(target)) return true;
    ::sched_yield();
  }
  return reached(target);
}

void Counter::sleep(uint32_t target, std::chrono::milliseconds time) {
  const timespec limit{time.count() / 1000, time.count() % 1000 * 1000000};
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t seen = value.load(std::memory_order_seq_cst);
  if (static_cast<int32_t>(seen - target) < 0) futex(value, FUTEX_WAIT, seen, &limit);
  sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void Counter::wake() {
  futex(value, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace convoy::shm
