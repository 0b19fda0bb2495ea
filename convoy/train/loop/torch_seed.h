#pragma once

#include <cstdint>

#include "convoy/parallel/buffers/types.h"

namespace convoy::train {

/// Seeds LibTorch's default generator of the CPU, from which modules of torch::nn draw. What convoy
/// itself draws is a function of its own seed.
void seed_torch(uint64_t seed);

/// Makes a model as `factory` does, after seeding LibTorch's generator: modules of torch::nn then
/// begin with the same weights on all ranks and in every start of a run.
parallel::ModelFactory seeded(parallel::ModelFactory factory, uint64_t seed);

}  // namespace convoy::train
