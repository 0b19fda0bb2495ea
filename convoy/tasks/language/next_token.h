#pragma once

#include <ATen/core/Tensor.h>

#include "convoy/tasks/language/generate.h"

namespace convoy::tasks {

/// Draws an id by scores [V] fp32, with temperature, top_k and top_p as Hugging Face's warpers
/// apply them one after the other; `uniform` in [0, 1) decides.
int32_t draw_token(const at::Tensor& scores, const GenerateOptions& options, double uniform);

}  // namespace convoy::tasks
