#include "tests/fake_gpu/block_cache.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "tests/fake_gpu/counters.h"
#include "tests/fake_gpu/history.h"
#include "tests/fake_gpu/notes.h"
#include "tests/fake_gpu/options.h"
#include "tests/fake_gpu/report.h"

namespace convoy::fake_gpu {

namespace {

// As in c10/cuda/CUDACachingAllocator.
constexpr size_t kMinBlock = 512;
constexpr size_t kSmall = 1 << 20;
constexpr size_t kSmallSegment = 2 << 20;
constexpr size_t kLargeSegment = 20 << 20;
constexpr size_t kMinLarge = 10 << 20;
constexpr size_t kRoundLarge = 2 << 20;

size_t rounded(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

void* pointer(uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

std::string size_text(size_t bytes) {
  std::array<char, 32> text{};
  const auto b = static_cast<double>(bytes);
  if (bytes <= 1024) {
    std::snprintf(text.data(), text.size(), "%zu bytes", bytes);
  } else if (bytes <= 1048576) {
    std::snprintf(text.data(), text.size(), "%.2f KiB", b / 1024);
  } else if (bytes <= 1073741824) {
    std::snprintf(text.data(), text.size(), "%.2f MiB", b / 1048576);
  } else {
    std::snprintf(text.data(), text.size(), "%.2f GiB", b / 1073741824);
  }
  return text.data();
}

}  // namespace

BlockCache::BlockCache(c10::DeviceIndex device, const DeviceMemory& memory, size_t limit)
    : device_(device), memory_(memory), limit_(limit) {}

void* BlockCache::allocate(size_t bytes, c10::Stream stream) {
  const auto& oom = options().oom;
  if (!oom.empty() && current_label()->text.starts_with(oom)) out_of_memory(bytes);
  serve_waiting(false);
  const size_t size = rounded(bytes, kMinBlock);
  const bool small = size <= kSmall;
  const uint32_t line = line_of(stream);
  auto block = find_free(size, line, small);
  if (block == blocks_.end()) {
    auto made = new_segment(size, line, small);
    if (!made) {
      ++stats_.num_alloc_retries;
      release_cached();
      made = new_segment(size, line, small);
    }
    if (!made) out_of_memory(bytes);
    block = *made;
  }
  cut(block, size);
  auto& taken = block->second;
  taken.allocated = true;
  taken.requested = bytes;
  taken.made = note("memory");
  taken.named = false;
  taken.number = ++last_number_;
  stats_.allocation[0].increase(1);
  stats_.allocated_bytes[0].increase(taken.size);
  stats_.active_bytes[0].increase(taken.size);
  stats_.requested_bytes[0].increase(bytes);
  poison(pointer(block->first), taken.size);
  if (mutated("early_reuse") && taken.number % 20 == 0) {
    pool(taken).insert({line, taken.size, block->first});  // the next who asks gets it, too
  }
  return pointer(block->first);
}

BlockCache::Blocks::iterator BlockCache::find_free(size_t size, uint32_t line, bool small) {
  auto& pool = small ? small_ : large_;
  const auto found = pool.lower_bound({line, size, 0});
  if (found == pool.end() || std::get<0>(*found) != line) return blocks_.end();
  const auto block = blocks_.find(std::get<2>(*found));
  pool.erase(found);
  return block;
}

std::optional<BlockCache::Blocks::iterator> BlockCache::new_segment(size_t size, uint32_t line,
                                                                    bool small) {
  const size_t bytes = small              ? kSmallSegment
                       : size < kMinLarge ? kLargeSegment
                                          : rounded(size, kRoundLarge);
  if (reserved_ + bytes > limit_) return std::nullopt;
  uintptr_t at = address_of(memory_.begin());
  for (const auto& [begin, segment] : segments_) {
    if (at + bytes <= begin) break;
    at = begin + segment.size;
  }
  TORCH_CHECK(at + bytes <= address_of(memory_.begin()) + memory_.size(),
              "fake_gpu: the addresses of a device are used up");
  segments_[at] = {bytes, small};
  reserved_ += bytes;
  ++stats_.num_device_alloc;
  stats_.segment[0].increase(1);
  stats_.reserved_bytes[0].increase(bytes);
  Counts one;
  one.segments = 1;
  count(one);
  Block block;
  block.size = bytes;
  block.line = line;
  block.segment = at;
  return blocks_.emplace(at, block).first;
}

void BlockCache::cut(Blocks::iterator block, size_t size) {
  const bool small = segments_.at(block->second.segment).small;
  const size_t left = block->second.size - size;
  if (small ? left < kMinBlock : left <= kSmall) return;
  Block rest;
  rest.size = left;
  rest.line = block->second.line;
  rest.segment = block->second.segment;
  block->second.size = size;
  const auto place = blocks_.emplace(block->first + size, rest).first;
  pool(rest).insert({rest.line, rest.size, place->first});
}

void BlockCache::free(void* memory) {
  const auto block = blocks_.find(address_of(memory));
  if (block == blocks_.end() || !block->second.allocated) {
    misused_quietly("memory is freed twice");
    return;
  }
  auto& freed = block->second;
  freed.allocated = false;
  stats_.allocation[0].decrease(1);
  stats_.allocated_bytes[0].decrease(freed.size);
  stats_.requested_bytes[0].decrease(freed.requested);
  poison(memory, freed.size);
  if (freed.used_on.empty()) return set_free(block);
  freed.waits = true;
  for (const auto& stream : freed.used_on) freed.until.join(reached(stream));
  freed.used_on.clear();
  waiting_.push_back(block->first);
}

void BlockCache::set_free(Blocks::iterator block) {
  stats_.active_bytes[0].decrease(block->second.size);
  auto& self = block->second;
  self.waits = false;
  self.until = {};
  const auto is_free = [&](Blocks::iterator other) {
    return !other->second.allocated && !other->second.waits &&
           other->second.segment == self.segment;
  };
  if (const auto next = std::next(block); next != blocks_.end() && is_free(next)) {
    pool(next->second).erase({next->second.line, next->second.size, next->first});
    self.size += next->second.size;
    blocks_.erase(next);
  }
  if (block != blocks_.begin()) {
    if (const auto before = std::prev(block); is_free(before)) {
      pool(before->second).erase({before->second.line, before->second.size, before->first});
      before->second.size += self.size;
      blocks_.erase(block);
      block = before;
    }
  }
  pool(block->second).insert({block->second.line, block->second.size, block->first});
}

void BlockCache::record_stream(void* memory, c10::Stream stream) {
  const auto block = blocks_.find(address_of(memory));
  if (block == blocks_.end() || line_of(stream) == block->second.line) return;
  auto& used = block->second.used_on;
  if (std::find(used.begin(), used.end(), stream) == used.end()) used.push_back(stream);
}

/// Frees what other streams are done with; with `wait` the host waits for them.
void BlockCache::serve_waiting(bool wait) {
  std::erase_if(waiting_, [&](uintptr_t address) {
    const auto block = blocks_.find(address);
    if (wait) host_waits(block->second.until);
    if (!host_knows(block->second.until)) return false;
    set_free(block);
    return true;
  });
}

void BlockCache::release_cached() {
  serve_waiting(true);
  bool released = false;
  for (auto* pool : {&small_, &large_}) {
    for (auto at = pool->begin(); at != pool->end();) {
      const auto block = blocks_.find(std::get<2>(*at));
      const auto segment = segments_.find(block->second.segment);
      if (block->second.size != segment->second.size) {
        ++at;
        continue;
      }
      forget({segment->first, segment->first + segment->second.size});
      memory_.release(pointer(segment->first), segment->second.size);
      reserved_ -= segment->second.size;
      ++stats_.num_device_free;
      stats_.segment[0].decrease(1);
      stats_.reserved_bytes[0].decrease(segment->second.size);
      segments_.erase(segment);
      blocks_.erase(block);
      at = pool->erase(at);
      released = true;
    }
  }
  if (!released) return;
  Counts one;
  one.waits = 1;
  count(one);
  host_waits(reached(device_));  // as cudaFree does
}

std::optional<Allocation> BlockCache::find(const void* address) const {
  auto block = blocks_.upper_bound(address_of(address));
  if (block == blocks_.begin()) return std::nullopt;
  --block;
  const auto& found = block->second;
  if (address_of(address) >= block->first + found.size || found.made == nullptr) {
    return std::nullopt;
  }
  return Allocation{pointer(block->first), found.allocated ? found.requested : found.size,
                    found.made, found.number, found.allocated};
}

void BlockCache::set_name(const void* address, const Note* made) {
  const auto block = blocks_.find(address_of(address));
  if (block == blocks_.end() || block->second.named) return;
  block->second.made = made;
  block->second.named = true;
}

void BlockCache::reset_peaks() {
  for (auto* stat : {&stats_.allocation[0], &stats_.allocated_bytes[0], &stats_.active_bytes[0],
                     &stats_.reserved_bytes[0], &stats_.requested_bytes[0], &stats_.segment[0]}) {
    stat->reset_peak();
  }
}

void BlockCache::out_of_memory(size_t bytes) {
  ++stats_.num_ooms;
  const auto held = options().held;
  const auto other = held == 0 ? "" : "Process 4242 has " + size_text(held) + " memory in use. ";
  const auto allocated = static_cast<size_t>(stats_.allocated_bytes[0].current);
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", size_text(bytes), ". GPU ",
      int{device_}, " has a total capacity of ", size_text(limit_ + held), " of which ",
      size_text(limit_ - reserved_), " is free. ", other,
      "Including non-PyTorch memory, this process has ", size_text(reserved_),
      " memory in use. Of the allocated memory ", size_text(allocated),
      " is allocated by PyTorch, and ", size_text(reserved_ - allocated),
      " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
      "setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
      "documentation for Memory Management  "
      "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)");
  std::abort();
}

}  // namespace convoy::fake_gpu
