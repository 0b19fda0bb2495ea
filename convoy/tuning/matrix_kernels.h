#pragma once

#include <string>

namespace convoy::tuning {

/// Answer to MKL when it asks whether the processor is Intel's.
bool answer_to_mkl(bool intel, bool allowed, bool avx2);

/// Which kernels torch's fp32 products on the CPU take here, and why.
std::string matrix_kernels();

}  // namespace convoy::tuning
