#include "convoy/models/body.h"

#include <ATen/Functions.h>

#include "convoy/base/error.h"

namespace convoy::models {

void BodyConfig::check() const {
  if (type != "gpt2" && type != "bert") {
    fail<UsageError>("models", "body '{}' is unknown; expected gpt2 or bert", type);
  }
  if (n_head < 1 || n_embd % n_head != 0) {
    fail<UsageError>("models",
                     "d_model = {} does not divide into n_head = {} heads; try n_head = "
                     "{}",
                     n_embd, n_head, n_embd % 4 == 0 ? 4 : 1);
  }
  if (activation_function != "gelu" && activation_function != "gelu_new" &&
      activation_function != "relu") {
    fail<UsageError>("models", "activation '{}' is unknown; expected gelu, gelu_new or relu",
                     activation_function);
  }
}

at::Tensor activate(const std::string& kind, const at::Tensor& x) {
  return kind == "relu" ? at::relu(x) : at::gelu(x, kind == "gelu_new" ? "tanh" : "none");
}

}  // namespace convoy::models
