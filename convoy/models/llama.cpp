#include "convoy/models/llama.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "convoy/comm/device.h"
#include "convoy/models/causal_head.h"
#include "convoy/nn/activation.h"
#include "convoy/nn/attention.h"
#include "convoy/nn/layers.h"
#include "convoy/nn/rms_norm.h"

// Shapes: B rows, T positions, D = hidden_size, F = intermediate_size, H heads, K heads of keys,
// E width of a head, V vocabulary.
namespace convoy::models {

namespace {

using nn::Init;
using nn::ParamPtr;

class LlamaInput : public nn::Block {
 public:
  explicit LlamaInput(const LlamaConfig& config)
      : Block("embeddings"), rotary_(config.rotary()), head_width_(config.head_width()) {
    table_ = declare_table("model.embed_tokens.weight", {config.vocab_size, config.hidden_size},
                           Init::normal(config.initializer_range), {0});
  }

  const ParamPtr& table() const { return table_; }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto& ids = in.at("input_ids");
    const int64_t V = table_->spec().shape[0];
    const auto& batch = context.batch(in);
    check_ids(batch.at("input_ids"), V, "input_ids");
    auto out = in;
    out["hidden"] = nn::embedding(ids, table_, false);
    const auto tables = rotary_tables(batch, ids);
    out["rotary_cos"] = tables.cos;
    out["rotary_sin"] = tables.sin;
    if (context.mode != nn::Mode::Predict) {
      put_targets(out, causal_targets(batch, V), ids.device());
    }
    return out;
  }

 private:
  /// Of the batch's positions, else of all up to the length of `ids`, which steps share.
  nn::RotaryTables rotary_tables(const nn::Bundle& batch, const at::Tensor& ids) {
    const auto at = batch.find("positions");
    if (at != batch.end()) {
      const auto length = at->second.max().item<int64_t>() + 1;
      const auto tables = nn::rotary_tables(rotary_, at->second, length, head_width_);
      return {comm::upload(tables.cos.unsqueeze(1), ids.device()),
              comm::upload(tables.sin.unsqueeze(1), ids.device())};
    }
    const auto& cos = tables_.cos;
    if (!cos.defined() || cos.size(0) != ids.size(1) || cos.device() != ids.device()) {
      tables_ = nn::rotary_tables(rotary_, ids.size(1), head_width_, ids.device());
    }
    return tables_;
  }

  nn::RotaryOptions rotary_;
  int64_t head_width_;
  nn::RotaryTables tables_;
  ParamPtr table_;
};

class LlamaLayer : public nn::Block {
 public:
  LlamaLayer(const LlamaConfig& config, int64_t index)
      : Block(fmt::format("model.layers.{}", index)),
        heads_(config.num_attention_heads),
        key_heads_(config.num_key_heads()),
        width_(config.head_width()),
        max_length_(config.max_position_embeddings),
        epsilon_(config.rms_norm_eps),
        dropout_(config.attention_dropout),
        activation_(config.hidden_act),
        deviation_(config.initializer_range) {
    const int64_t D = config.hidden_size, F = config.intermediate_size;
    const bool biased = config.attention_bias;
    attention_norm_ = norm("input_layernorm.weight", D);
    query_ = dense("self_attn.q_proj", D, heads_ * width_, biased, {0, {}, width_});
    key_ = dense("self_attn.k_proj", D, key_heads_ * width_, biased, {0, {}, width_});
    value_ = dense("self_attn.v_proj", D, key_heads_ * width_, biased, {0, {}, width_});
    mixed_ = dense("self_attn.o_proj", heads_ * width_, D, biased, {1, {}, width_});
    feed_norm_ = norm("post_attention_layernorm.weight", D);
    gate_ = dense("mlp.gate_proj", D, F, config.mlp_bias, {0});
    up_ = dense("mlp.up_proj", D, F, config.mlp_bias, {0});
    down_ = dense("mlp.down_proj", F, D, config.mlp_bias, {1});
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    auto x = in.at("hidden");
    x = x + attention(in, context);
    x = x + feed_forward(x);
    auto out = in;
    out["hidden"] = x;
    return out;
  }

 private:
  at::Tensor attention(const nn::Bundle& in, const nn::Context& context) const {
    const auto& x = in.at("hidden");
    const int64_t B = x.size(0), T = x.size(1);
    auto normed = nn::rms_norm(x, attention_norm_, epsilon_);
    auto heads = [&](const nn::DenseParams& dense, int64_t count) {
      return nn::linear(normed, dense).view({B, T, count, width_}).transpose(1, 2);
    };
    auto turned = [&](const at::Tensor& t) {
      return nn::rotate(t, in.at("rotary_cos"), in.at("rotary_sin"));
    };
    nn::AttentionOptions options;
    options.dropout = dropout_;
    options.max_length = std::max(max_length_, T);
    if (auto mask = in.find("key_mask"); mask != in.end()) options.key_mask = mask->second;
    auto mixed = nn::attention(turned(heads(query_, heads_)), turned(heads(key_, key_heads_)),
                               heads(value_, key_heads_), options, context);
    return nn::linear(mixed.transpose(1, 2).reshape({B, T, heads_ * width_}), mixed_);
  }

  at::Tensor feed_forward(const at::Tensor& x) const {
    auto normed = nn::rms_norm(x, feed_norm_, epsilon_);
    auto gate = nn::linear(normed, gate_), up = nn::linear(normed, up_);
    return nn::linear(nn::activate(activation_, gate, up), down_);
  }

  ParamPtr norm(const char* leaf, int64_t size) {
    return declare_vector(name() + "." + leaf, size, Init::ones());
  }

  nn::DenseParams dense(const std::string& leaf, int64_t in, int64_t out, bool biased,
                        const schedule::TensorCut& cut) {
    const auto full = name() + "." + leaf;
    if (biased) return declare_dense(full, in, out, deviation_, cut);
    return {declare_matrix(full + ".weight", {out, in}, Init::normal(deviation_), cut), nullptr};
  }

  int64_t heads_, key_heads_, width_, max_length_;
  double epsilon_, dropout_;
  std::string activation_;
  double deviation_;
  ParamPtr attention_norm_, feed_norm_;
  nn::DenseParams query_, key_, value_, mixed_, gate_, up_, down_;
};

}  // namespace

nn::BlockList LlamaConfig::make_blocks() const {
  check();
  auto input = std::make_shared<LlamaInput>(*this);
  nn::BlockList blocks{input};
  for (int64_t i = 0; i < num_hidden_layers; ++i) {
    blocks.push_back(std::make_shared<LlamaLayer>(*this, i));
  }
  blocks.push_back(make_causal_head({.norm = "model.norm",
                                     .norm_has_bias = false,
                                     .epsilon = rms_norm_eps,
                                     .table = input->table(),
                                     .tied = tie_word_embeddings,
                                     .initializer_range = initializer_range}));
  return blocks;
}

WeightLayout LlamaConfig::layout() const {
  return {"model.",
          {".rotary_emb.inv_freq"},
          "lm_head.weight",
          tie_word_embeddings ? "model.embed_tokens.weight" : ""};
}

}  // namespace convoy::models
