#include "convoy/base/gumbel.h"

#include "convoy/base/draw_group.h"
#include "convoy/base/lanes.h"

namespace convoy {

namespace {

using lanes::Floats;
using lanes::kLanes;

/// Replaces u by -ln(1 - u), with a series for the largest draws, where it is near zero.
[[gnu::always_inline]] inline void exponential(Floats& u) {
  constexpr float kNear = 0x1p-6f;
  const Floats series = u * (1.0f + u * (0.5f + u * (1.0f / 3 + u * 0.25f)));
  Floats rest = 1.0f - u;
  rest = rest < 0x1p-24f ? Floats{} + 0x1p-24f : rest;
  lanes::logarithm(rest);
  u = u < kNear ? series : -rest;
}

/// Fills `out` with draws from four words in each lane.
CONVOY_CLONES void fill_group(uint64_t key, uint64_t group, int64_t count, float* out) {
  DrawnWords words;
  draw_group(key, group, words);
  for (int64_t word = 0; word < 4 && word * kLanes < count; ++word) {
    Floats u;
    for (int lane = 0; lane < kLanes; ++lane) {
      u[lane] = (static_cast<float>(words[word][lane]) + 0.5f) * 0x1p-32f;
    }
    exponential(u);
    lanes::logarithm(u);
    lanes::store(-u, out + word * kLanes, lanes::count_at(word * kLanes, count));
  }
}

}  // namespace

void fill_gumbel(uint64_t key, int64_t count, float* out) {
  for (int64_t begin = 0; begin < count; begin += kDrawGroup) {
    const int64_t here = count - begin < kDrawGroup ? count - begin : kDrawGroup;
    fill_group(key, static_cast<uint64_t>(begin / kDrawGroup), here, out + begin);
  }
}

}  // namespace convoy
