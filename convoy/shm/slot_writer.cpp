#include "convoy/shm/slot_writer.h"

#include <chrono>

#include "convoy/shm/copy.h"

namespace convoy::shm {

namespace {

/// Smallest size in bytes that is timed: smaller pieces are too fast to time, and stay in the
/// caches anyway.
constexpr size_t kLarge = 16 << 10;
/// Number of slow writes in a row that count, since a single one may have been interrupted.
constexpr int kSlowInARow = 3;
/// Number of writes after which to look whether the others have come near.
constexpr int kLookEvery = 64;

}  // namespace

void SlotWriter::write(void* to, const void* from, size_t bytes) {
  if (bytes < kLarge) return copy(to, from, bytes);
  if (far_ && ++written_ < kLookEvery) {
    copy_streaming(to, from, bytes);
    return end_streaming();
  }
  written_ = 0;
  const auto start = std::chrono::steady_clock::now();
  copy(to, from, bytes);
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  const bool slow = time.count() > far_ns_per_line_ * (static_cast<double>(bytes) / 64);
  slow_ = slow ? slow_ + 1 : 0;
  far_ = far_ ? slow : slow_ >= kSlowInARow;
}

}  // namespace convoy::shm
