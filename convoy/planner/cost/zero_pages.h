#pragma once

#include <ATen/core/Tensor.h>

namespace convoy::planner {

/// Tensor of zeros whose pages take memory once they are touched: most rows of a table never are.
at::Tensor zero_pages(at::IntArrayRef shape, at::ScalarType dtype);

}  // namespace convoy::planner
