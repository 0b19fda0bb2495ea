#include "convoy/models/activation.h"

#include <ATen/ATen.h>

namespace convoy::models {

const std::vector<std::string>& activations() {
  static const std::vector<std::string> kNames{"gelu",      "gelu_new", "gelu_pytorch_tanh",
                                               "gelu_fast", "relu",     "silu",
                                               "swish",     "tanh",     "quick_gelu"};
  return kNames;
}

at::Tensor activate(const std::string& kind, const at::Tensor& x) {
  if (kind == "relu") return at::relu(x);
  if (kind == "silu" || kind == "swish") return at::silu(x);
  if (kind == "tanh") return at::tanh(x);
  if (kind == "quick_gelu") return x * at::sigmoid(1.702 * x);
  return at::gelu(x, kind == "gelu" ? "none" : "tanh");
}

}  // namespace convoy::models
