#pragma once

#include <ATen/core/Tensor.h>

namespace convoy::planner {

/// Zeros whose pages are there once something touches them: most rows of a table nothing does.
at::Tensor zero_pages(at::IntArrayRef shape, at::ScalarType dtype);

}  // namespace convoy::planner
