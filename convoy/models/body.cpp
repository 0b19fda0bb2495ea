#include "convoy/models/body.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::models {

void BodyConfig::check() const {
  if (type != "gpt2" && type != "bert") {
    fail<UsageError>("models", "body '{}' is unknown; expected gpt2 or bert", type);
  }
  const std::pair<const char*, int64_t> sizes[] = {
      {"d_model (n_embd)", n_embd}, {"n_head", n_head}, {"n_positions (max_length)", n_positions}};
  for (const auto& [name, size] : sizes) {
    if (size >= 1) continue;
    fail<UsageError>("models", "{} = {}; expected at least 1", name, size);
  }
  if (n_layer < 0 || n_inner < 0) {
    fail<UsageError>("models", "{} = {}; expected at least 0", n_layer < 0 ? "n_layer" : "n_inner",
                     n_layer < 0 ? n_layer : n_inner);
  }
  const std::pair<const char*, double> rates[] = {
      {"resid_pdrop", resid_pdrop}, {"embd_pdrop", embd_pdrop}, {"attn_pdrop", attn_pdrop}};
  for (const auto& [name, rate] : rates) {
    if (rate >= 0 && rate < 1) continue;
    fail<UsageError>("models", "{} = {}; expected at least 0 and below 1", name, rate);
  }
  if (n_embd % n_head != 0) {
    fail<UsageError>("models",
                     "d_model = {} does not divide into n_head = {} heads; try n_head = "
                     "{}",
                     n_embd, n_head, n_embd % 4 == 0 ? 4 : 1);
  }
  const auto& known = activations();
  if (std::find(known.begin(), known.end(), activation_function) == known.end()) {
    fail<UsageError>("models", "activation '{}' is unknown; expected one of {}{}",
                     activation_function, join(known), did_you_mean(activation_function, known));
  }
}

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
