#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace convoy {

/// Bytes of tensors that one thread allocated, less those that it freed; pools are not counted.
class ThreadMemory {
 public:
  void add(int64_t bytes) noexcept {
    held_ += bytes;
    peak_ = std::max<int64_t>(peak_, held_);
  }
  /// Peak above what is held now, since the last call. Call it while the thread does nothing.
  int64_t take_passing() noexcept { return peak_.exchange(held_) - held_; }

 private:
  std::atomic<int64_t> held_{0}, peak_{0};  // written by one thread, read by another
};

/// Counter of this thread's tensors; null where nobody asks.
inline thread_local ThreadMemory* thread_memory = nullptr;

/// Bytes of the tensors that this process holds in the host's memory outside of pools, counted by
/// the program's allocator; all zero in a program without a counting allocator.
class TensorMemory {
 public:
  /// Records that an allocator counts from now on; call it before the first tensor is allocated.
  void begin_counting() noexcept { counting_ = true; }
  bool is_counting() const noexcept { return counting_; }
  /// Returns the bytes held now, pools included.
  int64_t add(int64_t bytes) noexcept {
    if (thread_memory != nullptr) thread_memory->add(bytes);
    const int64_t all = held_ += bytes, now = all - pooled_;
    int64_t most = peak_;
    while (now > most && !peak_.compare_exchange_weak(most, now)) {
    }
    return all;
  }
  /// Moves `bytes` of this counter from held tensors into pools, which are counted separately.
  /// Returns false where nothing counts allocations.
  bool pool(int64_t bytes) noexcept {
    if (!counting_ && bytes > 0) return false;
    if (thread_memory != nullptr) thread_memory->add(-bytes);
    pooled_ += bytes;
    return true;
  }
  /// Records that `bytes` of the pools are rounding: the allocator gave them beyond the request.
  void round(int64_t bytes) noexcept { rounding_ += bytes; }
  int64_t held() const noexcept { return held_ - pooled_; }
  /// Sets the bytes beyond which the counting allocator refuses, pools included at the size that
  /// they asked for; 0: no limit.
  void set_limit(int64_t bytes) noexcept { limit_ = bytes; }
  /// Whether `held` are within the limit.
  bool allows(int64_t held) const noexcept { return limit_ == 0 || held - rounding_ <= limit_; }
  /// Peak of held() since the last call.
  int64_t take_peak() noexcept { return peak_.exchange(held()); }

 private:
  std::atomic<bool> counting_{false};
  std::atomic<int64_t> held_{0}, pooled_{0}, rounding_{0}, peak_{0}, limit_{0};
};

inline TensorMemory tensor_memory;

/// Share of tensor_memory that one pool has; gives it back when it dies.
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
  /// Adds bytes that the allocator gave beyond the request.
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
