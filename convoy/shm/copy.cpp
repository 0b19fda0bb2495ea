#include "convoy/shm/copy.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace convoy::shm {

void copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

#if defined(__x86_64__)

void copy_streaming(void* to, const void* from, size_t bytes) {
  if (to == from) return;
  auto* target = static_cast<char*>(to);
  const auto* source = static_cast<const char*>(from);
  const size_t head = (64 - reinterpret_cast<uintptr_t>(target) % 64) % 64;
  if (bytes < head + 64) return copy(to, from, bytes);
  copy(target, source, head);
  size_t i = head;
  for (; i + 64 <= bytes; i += 64) {  // whole cache lines, or the processor reads them after all
    __m128i line[4];
    for (int j = 0; j < 4; ++j) {
      line[j] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i) + j);
    }
    for (int j = 0; j < 4; ++j) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(target + i) + j, line[j]);
    }
  }
  copy(target + i, source + i, bytes - i);
}

void end_streaming() {
  _mm_sfence();
}

#else

void copy_streaming(void* to, const void* from, size_t bytes) {
  copy(to, from, bytes);
}

void end_streaming() {}

#endif

}  // namespace convoy::shm
