#pragma once

#include "convoy/base/lanes.h"
#include "convoy/base/random.h"

namespace convoy {

/// Words that are drawn at once, four for each lane.
inline constexpr int64_t kDrawGroup = 4 * lanes::kLanes;
using DrawnWords = uint32_t[4][lanes::kLanes];

/// Draws the words of group `group` of a stream: those of lane l are Philox's of the counter group
/// x kLanes + l.
[[gnu::always_inline]] inline void draw_group(uint64_t key, uint64_t group, DrawnWords& words) {
  for (int lane = 0; lane < lanes::kLanes; ++lane) {
    const uint64_t counter = group * lanes::kLanes + static_cast<uint64_t>(lane);
    words[0][lane] = static_cast<uint32_t>(counter);
    words[1][lane] = static_cast<uint32_t>(counter >> 32);
    words[2][lane] = words[3][lane] = 0;
  }
  philox_lanes(words, static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32));
}

}  // namespace convoy
