#include "convoy/models/bert/bert.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "convoy/nn/activation.h"
#include "convoy/nn/attention.h"
#include "convoy/nn/dropout.h"
#include "convoy/nn/layers.h"
#include "convoy/nn/tensor_ranks.h"

// Shapes: B rows, T positions, D = hidden_size, H = num_attention_heads, F = intermediate_size.
namespace convoy::models {

namespace {

class BertLayer : public nn::Block {
 public:
  BertLayer(const BertConfig& config, const std::string& prefix, int64_t index, bool first_only)
      : Block(fmt::format("{}.encoder.layer.{}", prefix, index)),
        config_(config),
        first_only_(first_only) {
    const int64_t D = config.hidden_size, F = config.intermediate_size;
    const int64_t head = D / config.num_attention_heads;
    query_ = dense("attention.self.query", D, D, {0, {}, head});
    key_ = dense("attention.self.key", D, D, {0, {}, head});
    value_ = dense("attention.self.value", D, D, {0, {}, head});
    mixed_ = dense("attention.output.dense", D, D, {1, {}, head});
    mixed_norm_ = declare_norm(name() + ".attention.output.LayerNorm", D);
    inner_ = dense("intermediate.dense", D, F, {0});
    out_ = dense("output.dense", F, D, {1});
    out_norm_ = declare_norm(name() + ".output.LayerNorm", D);
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto& all = in.at("hidden");
    auto x = first_only_ ? all.narrow(1, 0, 1).contiguous() : all;
    auto attended = nn::linear(attention(x, all, in, context), mixed_, context.tensor);
    attended = nn::dropout(attended, config_.hidden_dropout_prob, context, 1);
    x = nn::layer_norm(x + attended, mixed_norm_, config_.layer_norm_eps);
    const auto inner =
        nn::linear(nn::to_columns(x, inner_.weight, context.tensor), inner_, context.tensor);
    auto fed = nn::linear(nn::activate(config_.hidden_act, inner), out_, context.tensor);
    fed = nn::dropout(fed, config_.hidden_dropout_prob, context, 2);
    auto out = in;
    out["hidden"] = nn::layer_norm(x + fed, out_norm_, config_.layer_norm_eps);
    return out;
  }

  bool takes_tensor_ranks() const override { return true; }

 private:
  /// Of the positions of `x` over those of `all`.
  at::Tensor attention(const at::Tensor& x, const at::Tensor& all, const nn::Bundle& in,
                       const nn::Context& context) {
    const int64_t B = x.size(0), E = config_.hidden_size / config_.num_attention_heads;
    const int64_t D = query_.weight->shape()[0];  // of the heads that are here
    auto heads = [&](const at::Tensor& of, const nn::DenseParams& dense) {
      return nn::linear(of, dense, context.tensor).view({B, of.size(1), D / E, E}).transpose(1, 2);
    };
    const auto read = nn::to_columns(all, query_.weight, context.tensor);
    const auto asks = first_only_ ? nn::to_columns(x, query_.weight, context.tensor) : read;
    nn::AttentionOptions options;
    options.causal = false;
    if (auto mask = in.find("key_mask"); mask != in.end()) options.key_mask = mask->second;
    options.dropout = config_.attention_probs_dropout_prob;
    options.max_length = config_.max_position_embeddings;
    options.first_head = query_.weight->begin() / E;
    return nn::attention(heads(asks, query_), heads(read, key_), heads(read, value_), options,
                         context)
        .transpose(1, 2)
        .reshape({B, x.size(1), D});
  }

  nn::DenseParams dense(const char* leaf, int64_t in, int64_t out, const schedule::TensorCut& cut) {
    return declare_dense(name() + "." + leaf, in, out, config_.initializer_range, cut);
  }

  BertConfig config_;
  bool first_only_;
  nn::DenseParams query_, key_, value_, mixed_, inner_, out_;
  nn::NormParams mixed_norm_, out_norm_;
};

}  // namespace

nn::BlockPtr make_bert_layer(const BertConfig& config, const std::string& prefix, int64_t index,
                             bool first_only) {
  return std::make_shared<BertLayer>(config, prefix, index, first_only);
}

}  // namespace convoy::models
