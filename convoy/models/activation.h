#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace convoy::models {

/// What the feed-forward part can do between its two products, by Hugging Face's names.
const std::vector<std::string>& activations();
at::Tensor activate(const std::string& kind, const at::Tensor& x);

}  // namespace convoy::models
