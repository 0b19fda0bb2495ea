#pragma once

#include <cstddef>

namespace convoy::shm {

/// Copies; nothing happens when both are the same.
void copy(void* to, const void* from, size_t bytes);

/// Copies past the caches: the memory written is not read first, which is a third of the traffic.
/// For results that are too large to be found in a cache again. Call end_streaming() before others
/// may read.
void copy_streaming(void* to, const void* from, size_t bytes);
void end_streaming();

/// Size from which on a result is written past the caches.
inline constexpr size_t kStreamingBytes = 8 << 20;

}  // namespace convoy::shm
