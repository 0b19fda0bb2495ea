#pragma once

namespace convoy::job {

/// Lets torch see the GPUs: the first line of a program that uses torch before convoy. Once torch
/// was asked for CUDA (by torch::manual_seed, or a backward on the CPU) it is too late.
void open_devices();

}  // namespace convoy::job
