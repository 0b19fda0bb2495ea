#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "tests/fake_gpu/allocator.h"
#include "tests/fake_gpu/memory.h"
#include "tests/fake_gpu/order.h"

namespace convoy::fake_gpu {

/// The memory of one device in blocks. Whoever calls holds the lock of the device.
class BlockCache {
 public:
  BlockCache(c10::DeviceIndex device, const DeviceMemory& memory, size_t limit);

  /// Throws c10::OutOfMemoryError.
  void* allocate(size_t bytes, c10::Stream stream);
  void free(void* memory);
  void record_stream(void* memory, c10::Stream stream);
  /// Gives segments without a block in use back to the device, for which the host waits.
  void release_cached();

  std::optional<Allocation> find(const void* address) const;
  void set_name(const void* address, const Note* made);
  size_t reserved() const { return reserved_; }
  c10::CachingDeviceAllocator::DeviceStats stats() const { return stats_; }
  void reset_peaks();

 private:
  struct Block {
    size_t size = 0, requested = 0;
    uint32_t line = 0;  // of the stream it belongs to
    uintptr_t segment = 0;
    bool allocated = false, waits = false, named = false;
    const Note* made = nullptr;
    uint64_t number = 0;
    std::vector<c10::Stream> used_on;
    Clock until;
  };
  using Blocks = std::map<uintptr_t, Block>;
  using Free = std::set<std::tuple<uint32_t, size_t, uintptr_t>>;

  Free& pool(const Block& block) { return segments_.at(block.segment).small ? small_ : large_; }
  Blocks::iterator find_free(size_t size, uint32_t line, bool small);
  std::optional<Blocks::iterator> new_segment(size_t size, uint32_t line, bool small);
  void cut(Blocks::iterator block, size_t size);
  void set_free(Blocks::iterator block);
  void serve_waiting(bool wait);
  [[noreturn]] void out_of_memory(size_t bytes);

  struct Segment {
    size_t size = 0;
    bool small = false;
  };

  c10::DeviceIndex device_;
  const DeviceMemory& memory_;
  size_t limit_, reserved_ = 0;
  Blocks blocks_;
  std::map<uintptr_t, Segment> segments_;
  Free small_, large_;
  std::vector<uintptr_t> waiting_;  // freed, but used by other streams
  uint64_t last_number_ = 0;
  c10::CachingDeviceAllocator::DeviceStats stats_;
};

}  // namespace convoy::fake_gpu
