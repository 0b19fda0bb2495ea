#pragma once

#include <string>

namespace convoy::tuning {

/// Answer to MKL when it asks whether the processor is Intel's.
bool answer_to_mkl(bool intel, bool allowed, bool avx2);

/// Name of the kernels that torch's fp32 products on the CPU take here, and the reason. On Arm, of
/// their libraries.
std::string matrix_kernels();

}  // namespace convoy::tuning
