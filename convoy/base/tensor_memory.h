#pragma once

#include <atomic>
#include <cstdint>

namespace convoy {

/// Bytes of the tensors that this process holds in the host's memory, counted by the program's
/// allocator, but for those in pools; all zero in a program that has none that counts.
class TensorMemory {
 public:
  /// Returns what is held now, with what is in pools.
  int64_t add(int64_t bytes) noexcept {
    const int64_t all = held_ += bytes, now = all - pooled_;
    int64_t most = peak_;
    while (now > most && !peak_.compare_exchange_weak(most, now)) {
    }
    return all;
  }
  /// So many of them are in pools from now on, which are counted by themselves.
  void pool(int64_t bytes) noexcept {
    if (held_ > 0) pooled_ += bytes;
  }
  int64_t held() const noexcept { return held_ - pooled_; }
  /// The most since the last call.
  int64_t take_peak() noexcept { return peak_.exchange(held()); }

 private:
  std::atomic<int64_t> held_{0}, pooled_{0}, peak_{0};
};

inline TensorMemory tensor_memory;

}  // namespace convoy
