#include <ATen/Functions.h>
#include <fmt/format.h>

#include <cmath>

#include "convoy/models/body.h"
#include "convoy/nn/dropout.h"
#include "convoy/nn/layers.h"

// Shapes: B rows, T positions, D = n_embd, H = n_head, F = inner width.
namespace convoy::models {

namespace {

using nn::Init;
using nn::ParamPtr;

class Gpt2Layer : public nn::Block {
 public:
  Gpt2Layer(const BodyConfig& config, const std::string& prefix, int64_t index)
      : Block(fmt::format("{}.h.{}", prefix, index)), config_(config) {
    const int64_t D = config.n_embd;
    const int64_t F = config.inner();
    const double deviation = config.initializer_range;
    // GPT-2 scales the projections into the residual stream by the depth.
    const double residual = deviation / std::sqrt(2.0 * static_cast<double>(config.n_layer));
    ln_1_weight_ = vector("ln_1.weight", D, Init::ones());
    ln_1_bias_ = vector("ln_1.bias", D);
    attn_weight_ = matrix("attn.c_attn.weight", D, 3 * D, deviation, 1);
    attn_bias_ = vector("attn.c_attn.bias", 3 * D);
    proj_weight_ = matrix("attn.c_proj.weight", D, D, residual, 0);
    proj_bias_ = vector("attn.c_proj.bias", D);
    ln_2_weight_ = vector("ln_2.weight", D, Init::ones());
    ln_2_bias_ = vector("ln_2.bias", D);
    fc_weight_ = matrix("mlp.c_fc.weight", D, F, deviation, 1);
    fc_bias_ = vector("mlp.c_fc.bias", F);
    out_weight_ = matrix("mlp.c_proj.weight", F, D, residual, 0);
    out_bias_ = vector("mlp.c_proj.bias", D);
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    auto x = in.at("hidden");
    x = x + nn::dropout(attention(x, context), config_.resid_pdrop, context, 1);
    x = x + nn::dropout(feed_forward(x), config_.resid_pdrop, context, 2);
    auto out = in;
    out["hidden"] = x;
    return out;
  }

 private:
  at::Tensor attention(const at::Tensor& x, const nn::Context& context) const {
    const int64_t B = x.size(0), T = x.size(1), D = config_.n_embd, H = config_.n_head;
    auto normed = nn::layer_norm(x, ln_1_weight_, ln_1_bias_, config_.layer_norm_epsilon);
    auto qkv = nn::linear(normed, attn_weight_, attn_bias_, true).split(D, 2);
    auto heads = [&](const at::Tensor& t) { return t.view({B, T, H, D / H}).transpose(1, 2); };
    nn::AttentionOptions options;
    options.dropout = config_.attn_pdrop;
    options.max_length = config_.n_positions;
    auto mixed = nn::attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), options, context);
    return nn::linear(mixed.transpose(1, 2).reshape({B, T, D}), proj_weight_, proj_bias_, true);
  }

  at::Tensor feed_forward(const at::Tensor& x) const {
    auto normed = nn::layer_norm(x, ln_2_weight_, ln_2_bias_, config_.layer_norm_epsilon);
    auto inner = nn::linear(normed, fc_weight_, fc_bias_, true);
    auto active = activate(config_.activation_function, inner);
    return nn::linear(active, out_weight_, out_bias_, true);
  }

  ParamPtr matrix(const char* leaf, int64_t in, int64_t out, double deviation, int64_t split) {
    nn::ParamSpec spec{name() + "." + leaf, {in, out}, Init::normal(deviation)};
    spec.split_dim = split;
    return declare(std::move(spec));
  }

  ParamPtr vector(const char* leaf, int64_t size, Init init = Init::zeros()) {
    nn::ParamSpec spec{name() + "." + leaf, {size}, init};
    spec.decay = std::string_view(leaf).substr(0, 3) != "ln_" &&
                 std::string_view(leaf).find("bias") == std::string_view::npos;
    return declare(std::move(spec));
  }

  BodyConfig config_;
  ParamPtr ln_1_weight_, ln_1_bias_, attn_weight_, attn_bias_, proj_weight_, proj_bias_;
  ParamPtr ln_2_weight_, ln_2_bias_, fc_weight_, fc_bias_, out_weight_, out_bias_;
};

}  // namespace

nn::BlockPtr make_gpt2_layer(const BodyConfig& config, const std::string& prefix, int64_t index) {
  return std::make_shared<Gpt2Layer>(config, prefix, index);
}

}  // namespace convoy::models
