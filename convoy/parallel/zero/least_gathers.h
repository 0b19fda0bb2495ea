#pragma once

#include <cstdint>

#include "convoy/parallel/parallelism.h"

namespace convoy::parallel {

/// Weights that a step of stage 3 of ZeRO gathers at the least: `times` times so many elements.
struct LeastGathers {
  int64_t times = 0;
  double elements = 0;
};

/// Lower bound of what with_gathers() adds to a step on one stage. `elements` is the number of
/// weights, `read_in_backward` that of those that backward reads, `largest_block` that of the block
/// that has most.
LeastGathers least_gathers(const Parallelism& parallelism, double elements, double read_in_backward,
                           double largest_block);

}  // namespace convoy::parallel
