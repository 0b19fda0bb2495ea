#pragma once

#include <ATen/core/Tensor.h>

namespace convoy::nn {

/// Copies `from` into the fp32 `to`. bf16 on a processor goes past the caches: `to` is larger than
/// they are and wanted much later, as gradients are.
void cast(const at::Tensor& to, const at::Tensor& from);

}  // namespace convoy::nn
