#pragma once

#include <cstdint>

namespace convoy {

/// Fills `out` with `count` draws of the Gumbel distribution, -ln(-ln u) of uniform u. Draws added
/// to the logarithms of weights choose an index: the sum at i is the largest with a probability
/// proportional to weight i (Maddison et al., "A* sampling", 2014). Draw i is a function of `key`
/// and i alone.
void fill_gumbel(uint64_t key, int64_t count, float* out);

}  // namespace convoy
