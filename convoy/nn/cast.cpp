#include "convoy/nn/cast.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>

#include "convoy/base/lanes.h"
#include "convoy/nn/shapes_only.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace convoy::nn {

namespace {

using lanes::Bf16;
using lanes::Floats;
using lanes::kLanes;

/// Stores past the caches; `to` must be a multiple of 16 bytes.
[[gnu::always_inline]] inline void store_past_caches(const Floats& from, float* to) {
#if defined(__SSE__)
  __m128 quarters[4];
  std::memcpy(quarters, &from, sizeof(from));
  for (int i = 0; i < 4; ++i) _mm_stream_ps(to + 4 * i, quarters[i]);
#else
  lanes::store(from, to);
#endif
}

CONVOY_CLONES void cast_some(const Bf16* from, float* to, int64_t count) {
  lanes::each(0, count, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
    Floats x;
    lanes::load(from + i, x, n);
    n == kLanes ? store_past_caches(x, to + i) : lanes::store(x, to + i, n);
  });
#if defined(__SSE__)
  _mm_sfence();
#endif
}

}  // namespace

void cast(const at::Tensor& to, const at::Tensor& from) {
  const bool fits = to.is_cpu() && from.is_cpu() && from.scalar_type() == at::kBFloat16 &&
                    to.scalar_type() == at::kFloat && to.is_contiguous() && from.is_contiguous() &&
                    reinterpret_cast<uintptr_t>(to.const_data_ptr()) % 16 == 0;
  if (!fits || to.sizes() != from.sizes()) {
    to.copy_(from);
    return;
  }
  const auto* read = static_cast<const Bf16*>(from.const_data_ptr());
  auto* write = to.mutable_data_ptr<float>();
  constexpr int64_t kGrain = 1 << 15;
  in_parallel(0, at::divup(to.numel(), kGrain), 1, [&](int64_t begin, int64_t end) {
    begin *= kGrain, end = std::min(end * kGrain, to.numel());
    cast_some(read + begin, write + begin, end - begin);
  });
}

}  // namespace convoy::nn
