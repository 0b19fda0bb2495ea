#include "convoy/base/normals.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "convoy/base/draw_group.h"
#include "convoy/base/lanes.h"

namespace convoy {

namespace {

using lanes::Floats;
using lanes::kLanes;

/// Turns two words of each lane into two normal numbers.
[[gnu::always_inline]] inline void pair(const uint32_t* words, const uint32_t* turns, float scale,
                                        float* out) {
  constexpr float kCosines[] = {7.80013142f, -26.4046682f, 60.2421313f, -85.4566583f,
                                64.9393891f, -19.7392087f, 1.0f};
  constexpr float kSines[] = {3.78131888f, -15.0865653f, 42.057754f, -76.7058002f,
                              81.6052474f, -41.3417022f, 6.28318531f};
  Floats u, turn;
  for (int lane = 0; lane < kLanes; ++lane) {
    u[lane] = (static_cast<float>(words[lane]) + 0.5f) * 0x1p-32f;
    turn[lane] = static_cast<float>(static_cast<int32_t>(turns[lane])) * 0x1p-32f;
  }
  lanes::logarithm(u);
  u *= -2.0f;
  Floats radius;
  for (int lane = 0; lane < kLanes; ++lane) radius[lane] = std::sqrt(u[lane] > 0 ? u[lane] : 0);
  radius *= scale;
  const Floats square = turn * turn;
  Floats cosine = Floats{} - 1.45311229f, sine = Floats{} - 0.620778704f;
  for (const float term : kCosines) cosine = cosine * square + term;
  for (const float term : kSines) sine = sine * square + term;
  lanes::store(radius * cosine, out);
  lanes::store(radius * sine * turn, out + kLanes);
}

CONVOY_CLONES void fill_group(uint64_t key, uint64_t group, float scale, float* out) {
  DrawnWords words;
  draw_group(key, group, words);
  pair(words[0], words[1], scale, out);
  pair(words[2], words[3], scale, out + 2 * kLanes);
}

}  // namespace

void fill_normals(uint64_t key, uint64_t first, int64_t count, float scale, float* out) {
  const auto size = static_cast<uint64_t>(kDrawGroup);
  while (count > 0) {
    const auto skipped = static_cast<int64_t>(first % size);
    const int64_t here = std::min(count, kDrawGroup - skipped);
    if (here == kDrawGroup) {
      fill_group(key, first / size, scale, out);
    } else {
      float group[kDrawGroup];
      fill_group(key, first / size, scale, group);
      std::memcpy(out, group + skipped, static_cast<size_t>(here) * sizeof(float));
    }
    first += static_cast<uint64_t>(here), out += here, count -= here;
  }
}

}  // namespace convoy
