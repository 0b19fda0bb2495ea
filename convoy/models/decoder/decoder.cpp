#include "convoy/models/decoder/decoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "convoy/models/causal_head.h"
#include "convoy/models/decoder/decoder_layer.h"
#include "convoy/models/decoder/heads_here.h"
#include "convoy/models/decoder/layer_inputs.h"
#include "convoy/models/padding_row.h"
#include "convoy/models/ranks_of.h"
#include "convoy/models/text_block.h"
#include "convoy/models/wrapper.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::models {

namespace {

class DecoderInput : public TextBlock {
 public:
  explicit DecoderInput(const DecoderConfig& config) : TextBlock("embeddings"), config_(config) {
    padding_ = config.padding_row();
    table_ = declare_table(config.body() + "embed_tokens.weight",
                           {config.vocab_size, config.hidden_size},
                           nn::Init::normal(config.initializer_range, padding_), {0});
    if (config.layer_input_width() == 0) return;
    layer_inputs_.emplace(config, [this](auto spec) { return declare(std::move(spec)); });
  }

  const nn::ParamPtr& table() const { return table_; }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto& ids = in.at("input_ids");
    const int64_t V = table_->spec().shape[0];
    const auto& batch = context.batch(in);
    check_ids(batch.at("input_ids"), V, "input_ids");
    auto out = in;
    const auto ranks = ranks_of(ids, context);
    auto x = untrained_at(padding_, ids, nn::embedding(ids, table_, false, ranks), ranks);
    const double scale = config_.embedding_scale(context.compute_dtype);
    if (scale != 1) x = x * scale;
    out["hidden"] = x;
    if (layer_inputs_) {
      out[kLayerInputs] =
          layer_inputs_->forward(ids, batch.at("input_ids"), x, ranks, context.compute_dtype);
    }
    if (context.mode != nn::Mode::Predict) {
      if (config_.any_experts()) {
        out[kRoutingSums] = at::zeros({2, config_.num_experts}, x.options().dtype(at::kFloat));
      }
      put_targets(out, ranks.positions().own(causal_targets(batch, V)), ids.device());
    }
    return out;
  }

 private:
  DecoderConfig config_;
  nn::ParamPtr table_;
  std::optional<int64_t> padding_;  // the row that no token trains
  std::optional<LayerInputs> layer_inputs_;
};

}  // namespace

// A rank whose query heads share key heads unevenly gets one key head for each query head.
int64_t DecoderConfig::key_width_on(int64_t layer, const parallel::TensorPlace& place) const {
  const auto type = layer_type(layer);
  const auto here = HeadsHere::of(num_attention_heads, num_key_heads(type), place);
  return (here.keys_read().empty() ? here.keys : here.queries) * head_width(type);
}

nn::BlockList DecoderConfig::make_blocks() const {
  check();
  auto input = std::make_shared<DecoderInput>(*this);
  nn::BlockList blocks{input};
  const auto angles = [&](LayerType type) {
    return std::make_shared<RotaryAngles>(rotary(type), rotary_width(type));
  };
  const auto full = angles(LayerType::Full);
  const auto windowed = family_->rotates_by_type ? angles(LayerType::Windowed) : full;
  for (int64_t i = 0; i < num_hidden_layers; ++i) {
    const bool is_full = layer_type(i) == LayerType::Full;
    blocks.push_back(make_decoder_layer(*this, i, is_full ? full : windowed));
  }
  blocks.push_back(make_causal_head({.norm = body() + "norm",
                                     .norm_has_bias = false,
                                     .epsilon = rms_norm_eps,
                                     .one_more = family_->one_more,
                                     .table = input->table(),
                                     .tied = tie_word_embeddings,
                                     .initializer_range = initializer_range,
                                     .logits_divisor = logits_scaling,
                                     .logits_cap = final_logit_softcapping.value_or(0),
                                     .balancing = balancing(),
                                     .experts_per_token = any_experts() ? num_experts_per_tok : 0,
                                     .targets = causal_targets_of(vocab_size)}));
  return blocks;
}

std::string DecoderConfig::body() const {
  return wrapper() == nullptr ? "model." : kTextBody;
}

// transformers reads and writes norms of this family under several names.
std::vector<WeightLayout::Alias> DecoderConfig::names_of_norms() const {
  std::vector<WeightLayout::Alias> out;
  for (int64_t i = 0; i < num_hidden_layers; ++i) {
    const auto layer = fmt::format("{}layers.{}.", body(), i);
    const auto first = layer + "attention_layer_norm.weight";
    const auto second = layer + "feedforward_layer_norm.weight";
    const auto now = layer + "post_attention_layernorm.weight";
    if (layer_type(i) == LayerType::Linear) {
      out.push_back({layer + "input_layernorm.weight", first});
      out.push_back({now, second});
    } else {
      out.push_back({second, now});
    }
  }
  return out;
}

WeightLayout DecoderConfig::layout() const {
  WeightLayout out{body(),
                   {".rotary_emb.inv_freq"},
                   "lm_head.weight",
                   tie_word_embeddings ? body() + "embed_tokens.weight" : ""};
  if (family_->experts != nullptr) {
    const auto& experts = *family_->experts;
    out.no_modules = {fmt::format(".{}.experts.", experts.module),
                      fmt::format(".{}.{}.", experts.module, experts.router)};
    if (experts.renames_module) {
      out.renamed = {fmt::format(".{}.", experts.module)};
    } else if (!experts.stacked) {
      out.renamed = {out.no_modules[0]};
    }
  }
  const bool is_qwen =
      family_->delta == DeltaLayers::Fused || family_->delta == DeltaLayers::Interleaved;
  if (is_qwen) out.unused = {"mtp.", "model.visual."};
  // Files have weights of keys of layers that read those of others.
  for (int64_t i = num_hidden_layers - num_kv_shared_layers; i < num_hidden_layers; ++i) {
    for (const char* leaf : {"k_proj", "v_proj", "k_norm", "v_norm"}) {
      out.buffers.push_back(fmt::format("layers.{}.self_attn.{}.weight", i, leaf));
    }
  }
  if (family_->delta == DeltaLayers::Apart) out.aliases = names_of_norms();
  if (wrapper() == nullptr) return out;
  out.spellings = wrapper()->spellings;
  out.others = beginnings_of_others(*wrapper());
  return out;
}

}  // namespace convoy::models
