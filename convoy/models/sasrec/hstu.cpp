#include "convoy/models/sasrec/hstu.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "convoy/models/ranks_of.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/layers.h"

// Shapes: B rows, T positions, D = hidden_size, H heads, E width of a head, L = max_length.
namespace convoy::models {

namespace {

constexpr int64_t kBuckets = 128;
constexpr double kBucket = 0.301;

class HstuLayer : public nn::Block {
 public:
  HstuLayer(const SasrecConfig& config, const std::string& name, bool asked_only)
      : Block(name), config_(config), asked_only_(asked_only) {
    const int64_t D = config.hidden_size;
    const auto init = nn::Init::normal(config.initializer_range);
    mixed_ = declare_matrix(name + ".uvqk_proj", {D, 4 * D}, init);
    out_ = declare_dense(name + ".output_mlp", D, D, config.initializer_range);
    norm_in_ = declare_norm(name + ".norm_input", D);
    norm_out_ = declare_norm(name + ".norm_attn_output", D);
    by_time_ = declare_table(name + ".rel_attn.time_weights", {kBuckets + 1, 1}, init);
    by_distance_ =
        declare_table(name + ".rel_attn.pos_weights", {2 * config.max_length - 1, 1}, init);
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const bool all = !asked_only_ || context.mode == nn::Mode::Train;
    const auto wanted =
        all ? nn::WantedTokens(nn::TensorRanks()) : asked_tokens(in, nn::TensorRanks());
    const auto real = in.at("key_mask").unsqueeze(2).to(at::kFloat);  // [B, T, 1]
    const auto x = in.at("hidden") * real;
    const auto normed = nn::layer_norm(x, norm_in_, config_.layer_norm_eps) * real;
    const auto product = nn::linear(normed, mixed_, nullptr, /*in_first=*/true).to(at::kFloat);
    const auto parts = at::silu(product).chunk(4, 2);
    const auto scores = at::matmul(heads(parts[2]), heads(parts[3]).transpose(2, 3)) + bias(in);
    const auto weights = at::silu(scores) / static_cast<double>(config_.max_length) * seen(in);
    const auto attended = at::matmul(weights, heads(parts[1])).transpose(1, 2).flatten(2);
    const auto gated = wanted.of(parts[0]) *
                       nn::layer_norm(wanted.of(attended), norm_out_, config_.layer_norm_eps);
    const auto is_there = wanted.of(real);
    const auto added =
        nn::linear(wanted.dropout(gated * is_there, config_.dropout, context, 0), out_);
    auto out = in;
    out["hidden"] = wanted.put_back((wanted.of(x) + added) * is_there, x);
    return out;
  }
  std::string cost_key() const override { return config_.cost_key(); }

 private:
  at::Tensor heads(const at::Tensor& x) const {
    const int64_t H = config_.num_attention_heads;
    return x.unflatten(2, {H, config_.hidden_size / H}).transpose(1, 2);
  }

  /// Attention bias [B, 1, T, T] of times and positions.
  at::Tensor bias(const nn::Bundle& in) const {
    const auto& buckets = in.at("time_buckets");
    const auto places = at::arange(buckets.size(1), buckets.options());
    const auto far = places.unsqueeze(0) - places.unsqueeze(1) + (config_.max_length - 1);
    const auto both = nn::embedding(buckets, by_time_, /*padding=*/false) +
                      nn::embedding(far, by_distance_, /*padding=*/false).unsqueeze(0);
    return both.squeeze(3).unsqueeze(1);
  }

  /// Mask [B, 1, T, T] of the items at and before each position.
  static at::Tensor seen(const nn::Bundle& in) {
    const auto& real = in.at("key_mask");
    return real.unsqueeze(1).expand({-1, real.size(1), -1}).tril().unsqueeze(1).to(at::kFloat);
  }

  SasrecConfig config_;
  bool asked_only_;
  nn::ParamPtr mixed_, by_time_, by_distance_;
  nn::DenseParams out_;
  nn::NormParams norm_in_, norm_out_;
};

}  // namespace

at::Tensor time_buckets(const at::Tensor& asked, const at::Tensor& times) {
  const auto seconds = (asked.unsqueeze(2) - times.unsqueeze(1)).abs().clamp_min(1);
  return (seconds.to(at::kFloat).log() / kBucket).to(at::kLong).clamp(0, kBuckets);
}

nn::BlockPtr make_hstu_layer(const SasrecConfig& config, const std::string& prefix, int64_t index,
                             bool asked_only) {
  return std::make_shared<HstuLayer>(config, fmt::format("{}.{}", prefix, index), asked_only);
}

}  // namespace convoy::models
