#pragma once

#include <cstdint>

namespace convoy {

/// Fills `out` with `count` draws of the Gumbel distribution, -ln(-ln u) of uniform u: added to the
/// logarithms of weights, the largest sum is each one's with a probability by its weight (Maddison
/// et al., "A* sampling", 2014). Draw i is a function of `key` and i alone.
void fill_gumbel(uint64_t key, int64_t count, float* out);

}  // namespace convoy
