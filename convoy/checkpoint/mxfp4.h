#pragma once

#include <ATen/core/Tensor.h>

namespace convoy::checkpoint {

/// Numbers of 4 bits (E2M1) in groups of 32 with a power of two each, as OCP's MX formats define
/// them. `blocks` [..., G, 16] uint8 has two numbers a byte, the lower half first, and `scales`
/// [..., G] uint8 the exponents plus 127. Returns [..., 32 G] bf16, which holds each exactly.
at::Tensor from_mxfp4(const at::Tensor& blocks, const at::Tensor& scales);

}  // namespace convoy::checkpoint
