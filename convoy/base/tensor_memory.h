#pragma once

#include <atomic>
#include <cstdint>

namespace convoy {

/// Bytes of the tensors that this process holds in the host's memory, counted by the program's
/// allocator; all zero in a program that has none that counts.
class TensorMemory {
 public:
  /// Returns what is held now.
  int64_t add(int64_t bytes) noexcept {
    const int64_t now = held_ += bytes;
    int64_t most = peak_;
    while (now > most && !peak_.compare_exchange_weak(most, now)) {
    }
    return now;
  }
  int64_t held() const noexcept { return held_; }
  /// The most since the last call.
  int64_t take_peak() noexcept { return peak_.exchange(held_); }

 private:
  std::atomic<int64_t> held_{0}, peak_{0};
};

inline TensorMemory tensor_memory;

}  // namespace convoy
