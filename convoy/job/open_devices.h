#pragma once

namespace convoy::job {

/// Makes the GPUs visible to torch. Call it in the first line of a program that uses torch before
/// convoy: once torch was asked for CUDA (by torch::manual_seed, or a backward on the CPU) it is
/// too late.
void open_devices();

}  // namespace convoy::job
