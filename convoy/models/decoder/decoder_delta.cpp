#include "convoy/base/error.h"
#include "convoy/models/decoder/decoder.h"
#include "convoy/nn/delta/delta_chunks.h"

// Layers with the gated delta rule: their heads, and what they take.
namespace convoy::models {

nn::DeltaHeads DecoderConfig::delta_heads() const {
  nn::DeltaHeads out;
  out.keys = linear_num_key_heads.value_or(num_attention_heads);
  out.values = linear_num_value_heads.value_or(num_attention_heads);
  out.key_width = linear_key_head_dim.value_or(hidden_size * 3 / (4 * out.keys));
  out.value_width = linear_value_head_dim.value_or(2 * out.key_width);
  return out;
}

LayerType DecoderConfig::usual_delta_type(int64_t layer) const {
  constexpr int64_t kInterval = 4;  // of a family without the key
  if (family_->delta == DeltaLayers::Apart) {
    const bool only_one = num_hidden_layers < kInterval && layer + 1 == num_hidden_layers;
    return only_one || (layer + 1) % kInterval == 0 ? LayerType::Full : LayerType::Linear;
  }
  return (layer + 1) % full_attention_interval == 0 ? LayerType::Full : LayerType::Linear;
}

void DecoderConfig::check_delta() const {
  if (family_->delta != DeltaLayers::Apart && !has_rope_theta()) {
    fail<UsageError>("models", "rope_theta is none; expected a number");
  }
  if (family_->delta == DeltaLayers::None) return;
  const auto heads = delta_heads();
  if (heads.values % heads.keys != 0) {
    fail<UsageError>("models",
                     "linear_num_value_heads = {} does not divide into linear_num_key_heads = {}; "
                     "expected a multiple of it",
                     heads.values, heads.keys);
  }
  if (heads.key_width < 1) {
    fail<UsageError>(
        "models",
        "linear_num_key_heads = {} leaves nothing of hidden_size = {}; try fewer heads, or "
        "linear_key_head_dim",
        heads.keys, hidden_size);
  }
  if (heads.columns() > kWidest) {
    fail<UsageError>("models",
                     "the heads of linear_attention are {} wide together; expected at most {}",
                     heads.columns(), kWidest);
  }
  if (linear_a_log_max < linear_a_log_min || linear_dt_max < linear_dt_min) {
    fail<UsageError>("models",
                     "linear_a_log_min = {} to linear_a_log_max = {}, linear_dt_min = {} to "
                     "linear_dt_max = {}; expected least numbers that are no larger",
                     linear_a_log_min, linear_a_log_max, linear_dt_min, linear_dt_max);
  }
}

std::optional<double> DecoderConfig::state_bytes(int64_t layer, at::ScalarType dtype,
                                                 const parallel::TensorPlace& place) const {
  if (keys_of(layer) != layer) return 0;
  if (layer_type(layer) != LayerType::Linear) return std::nullopt;
  auto heads = delta_heads();
  const int64_t r = heads.values_of_key();
  heads.keys = parallel::local_shape({heads.keys}, {.dim = 0}, place)[0];
  heads.values = heads.keys * r;
  const auto tail = heads.columns() * (linear_conv_kernel_dim - 1);
  return static_cast<double>(heads.state()) * sizeof(float) +
         static_cast<double>(tail) * static_cast<double>(at::elementSize(dtype));
}

// A position reads its state, corrects it and writes to it; of its chunk half lies before it.
double DecoderConfig::delta_products() const {
  const auto heads = delta_heads();
  const auto E = static_cast<double>(heads.key_width), V = static_cast<double>(heads.value_width);
  const double pairs = static_cast<double>(nn::kDeltaChunk) / 2;
  const double by_value = 3 * E * V + pairs * (E + 2 * V);
  return static_cast<double>(heads.values) * by_value +
         static_cast<double>(heads.keys) * 2 * pairs * E;
}

}  // namespace convoy::models
