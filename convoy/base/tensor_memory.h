#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace convoy {

/// Bytes of tensors that one thread made, less those that it let go of, and but for pools.
class ThreadMemory {
 public:
  void add(int64_t bytes) noexcept {
    held_ += bytes;
    peak_ = std::max<int64_t>(peak_, held_);
  }
  /// The most beside what is held now, since the last call; while the thread does nothing.
  int64_t take_passing() noexcept { return peak_.exchange(held_) - held_; }

 private:
  std::atomic<int64_t> held_{0}, peak_{0};  // written by one thread, read by another
};

/// Of this thread, if anyone asks.
inline thread_local ThreadMemory* thread_memory = nullptr;

/// Bytes of the tensors that this process holds in the host's memory, counted by the program's
/// allocator, but for those in pools; all zero in a program that has none that counts.
class TensorMemory {
 public:
  /// Returns what is held now, with what is in pools.
  int64_t add(int64_t bytes) noexcept {
    if (thread_memory != nullptr) thread_memory->add(bytes);
    const int64_t all = held_ += bytes, now = all - pooled_;
    int64_t most = peak_;
    while (now > most && !peak_.compare_exchange_weak(most, now)) {
    }
    return all;
  }
  /// So many of them are in pools from now on, which are counted by themselves. False where nothing
  /// counts what is held.
  bool pool(int64_t bytes) noexcept {
    if (held_ <= 0 && bytes > 0) return false;
    if (thread_memory != nullptr) thread_memory->add(-bytes);
    pooled_ += bytes;
    return true;
  }
  /// So many of those are what the allocator gave to pools beyond what they asked for.
  void round(int64_t bytes) noexcept { rounding_ += bytes; }
  int64_t held() const noexcept { return held_ - pooled_; }
  /// What the allocator that counts refuses to go beyond, pools included as they asked; 0: it takes
  /// what there is.
  void set_limit(int64_t bytes) noexcept { limit_ = bytes; }
  /// Whether `held` are within the limit.
  bool allows(int64_t held) const noexcept { return limit_ == 0 || held - rounding_ <= limit_; }
  /// The most since the last call.
  int64_t take_peak() noexcept { return peak_.exchange(held()); }

 private:
  std::atomic<int64_t> held_{0}, pooled_{0}, rounding_{0}, peak_{0}, limit_{0};
};

inline TensorMemory tensor_memory;

/// What one pool has of tensor_memory, and gives back when it dies.
class PooledBytes {
 public:
  PooledBytes() = default;
  ~PooledBytes() {
    tensor_memory.pool(-bytes_);
    tensor_memory.round(-rounding_);
  }
  PooledBytes(PooledBytes&& other) noexcept
      : bytes_(std::exchange(other.bytes_, 0)), rounding_(std::exchange(other.rounding_, 0)) {}
  PooledBytes& operator=(PooledBytes&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(rounding_, other.rounding_);
    return *this;
  }

  void add(int64_t bytes) noexcept {
    bytes = std::max(bytes, -bytes_);  // no more than was counted
    if (tensor_memory.pool(bytes)) bytes_ += bytes;
  }
  /// The same of what the allocator gave beyond what was asked for.
  void add_rounding(int64_t bytes) noexcept {
    const int64_t before = bytes_;
    add(bytes);
    tensor_memory.round(bytes_ - before);
    rounding_ += bytes_ - before;
  }

 private:
  int64_t bytes_ = 0, rounding_ = 0;
};

}  // namespace convoy
