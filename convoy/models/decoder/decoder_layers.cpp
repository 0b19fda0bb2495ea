#include <algorithm>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/json_number.h"
#include "convoy/models/decoder/decoder.h"

// Types of layers, windows, rotation and experts, which differ from layer to layer of a decoder.
namespace convoy::models {

namespace {

void need_one_a_layer(const char* key, const Json& list, int64_t layers) {
  if (list.is_null()) return;
  if (!list.is_array() || std::ssize(list) != layers) {
    fail<UsageError>("models", "{} = {}; expected a list of num_hidden_layers = {}", key,
                     list.dump(), layers);
  }
}

/// Whether a weight is of an expert that only some tokens are sent to.
bool is_expert(const std::string& name) {
  return name.find(".experts.") != std::string::npos;
}

}  // namespace

const char* name_of(LayerType type) {
  switch (type) {
    case LayerType::Windowed:
      return kWindowedAttention;
    case LayerType::Linear:
      return kLinearAttention;
    case LayerType::Full:
      break;
  }
  return kFullAttention;
}

bool DecoderConfig::rotates(int64_t layer) const {
  if (family_->delta == DeltaLayers::Apart && !has_rope_theta()) return false;
  if (no_rope_layer_interval == 0) return true;
  if (no_rope_layers.is_null()) return (layer + 1) % no_rope_layer_interval != 0;
  return no_rope_layers.at(static_cast<size_t>(layer)) != 0;
}

LayerType DecoderConfig::layer_type(int64_t layer) const {
  const auto windowed_if = [](bool is) { return is ? LayerType::Windowed : LayerType::Full; };
  if (family_->last_is_full && layer + 1 == num_hidden_layers) return LayerType::Full;
  if (!layer_types.is_null()) {
    const auto& type = layer_types.at(static_cast<size_t>(layer));
    return type == kLinearAttention ? LayerType::Linear : windowed_if(type == kWindowedAttention);
  }
  if (family_->delta != DeltaLayers::None) return usual_delta_type(layer);
  const bool has = use_sliding_window && sliding_window.value_or(0) > 0;
  switch (family_->windows) {
    case WindowedLayers::None:
      return LayerType::Full;
    case WindowedLayers::Everywhere:
      return windowed_if(has);
    case WindowedLayers::FromALayer:
      return windowed_if(has && layer >= max_window_layers);
    case WindowedLayers::WithoutRotation:
      return windowed_if(has && !rotates(layer));
    case WindowedLayers::ButEachNth:
      return windowed_if((layer + 1) % sliding_window_pattern != 0);
    case WindowedLayers::EachOther:
      return windowed_if(layer % 2 == 0);
    case WindowedLayers::EachOtherBelow:
      return windowed_if(has && layer % 2 == 0 && layer < max_window_layers);
  }
  return LayerType::Full;
}

int64_t DecoderConfig::window_of(int64_t layer) const {
  return layer_type(layer) == LayerType::Windowed ? sliding_window.value_or(0) : 0;
}

bool DecoderConfig::has_experts(int64_t layer) const {
  if (family_->experts == nullptr || (layer + 1) % decoder_sparse_step != 0) return false;
  return std::find(mlp_only_layers.begin(), mlp_only_layers.end(), layer) == mlp_only_layers.end();
}

bool DecoderConfig::any_experts() const {
  bool any = false;
  for (int64_t layer = 0; layer < num_hidden_layers; ++layer) any = any || has_experts(layer);
  return any;
}

double DecoderConfig::balancing() const {
  return any_experts() && output_router_logits ? router_aux_loss_coef : 0;
}

void DecoderConfig::check_experts() const {
  if (family_->experts == nullptr) return;
  if (num_experts_per_tok > num_experts) {
    const bool local = defaults_.contains("num_local_experts");
    fail<UsageError>("models", "num_experts_per_tok = {} of {} = {}; expected at most {}",
                     num_experts_per_tok, local ? "num_local_experts" : "num_experts", num_experts,
                     num_experts);
  }
  if (!mlp_only_layers.is_null() && !mlp_only_layers.is_array()) {
    fail<UsageError>("models", "mlp_only_layers = {}; expected a list of layers",
                     mlp_only_layers.dump());
  }
  for (const auto& layer : mlp_only_layers) {
    const auto number = whole_number<int64_t>(layer);
    if (number && *number >= 0) continue;
    fail<UsageError>("models", "mlp_only_layers has {}; expected numbers of layers, from 0",
                     layer.dump());
  }
}

void DecoderConfig::check_layers() const {
  if (sliding_window == 0 && use_sliding_window) {
    fail<UsageError>("models", "sliding_window = 0 hides all keys; expected none, or at least 1");
  }
  const auto pattern = defaults_.value("sliding_window_pattern", sliding_window_pattern);
  if (!family_->reads_pattern && sliding_window_pattern != pattern) {
    fail<UsageError>("models",
                     "sliding_window_pattern = {} has no effect in Hugging Face's model, which has "
                     "{}; try layer_types",
                     sliding_window_pattern, pattern);
  }
  need_one_a_layer("layer_types", layer_types, num_hidden_layers);
  need_one_a_layer("no_rope_layers", no_rope_layers, num_hidden_layers);
  for (const auto& type : layer_types) {
    const bool has_delta = family_->delta != DeltaLayers::None;
    const char* other = has_delta ? kLinearAttention : kWindowedAttention;
    if (type == kFullAttention || type == other) continue;
    fail<UsageError>("models", "layer_types names {}; expected {} or {}", type.dump(),
                     kFullAttention, other);
  }
  for (const auto& rotates : no_rope_layers) {
    const auto number = whole_number<int64_t>(rotates);
    if (number && (*number == 0 || *number == 1)) continue;
    fail<UsageError>("models", "no_rope_layers has {}; expected 0 or 1", rotates.dump());
  }
  for (int64_t layer = 0; layer < num_hidden_layers; ++layer) {
    const bool has = use_sliding_window && sliding_window.value_or(0) > 0;
    if (layer_type(layer) != LayerType::Windowed || has) continue;
    fail<UsageError>("models",
                     "layer {} has a window, but sliding_window is none, 0 or not used; try {} in "
                     "layer_types",
                     layer, kFullAttention);
  }
}

double DecoderConfig::training_flops(int64_t length, int64_t /*asked*/) const {
  const auto positions = static_cast<double>(length);
  double wide_pairs = 0, delta = 0;
  for (int64_t layer = 0; layer < num_hidden_layers; ++layer) {
    if (layer_type(layer) == LayerType::Linear) {
      delta += delta_products() * positions;
      continue;
    }
    const int64_t window = window_of(layer);
    double pairs = positions * positions / 2;  // causality leaves half of them
    if (window > 0 && window < length) {
      // All see the window but the first, which see those before.
      const auto seen = static_cast<double>(window);
      pairs = seen * (positions - seen / 2);
    }
    wide_pairs += pairs * static_cast<double>(num_attention_heads * head_width(layer_type(layer)));
  }
  const auto of = [&](const nn::Block&, const nn::ParamSpec& spec, bool) {
    if (!is_expert(spec.name)) return positions;
    return positions * static_cast<double>(num_experts_per_tok) / static_cast<double>(num_experts);
  };
  // What makes the inputs of layers is in the first block.
  const double inputs = positions * static_cast<double>(hidden_size * num_hidden_layers) *
                        static_cast<double>(layer_input_width());
  return flops_of(of, wide_pairs) + 3 * 2 * (delta + inputs);
}

}  // namespace convoy::models
