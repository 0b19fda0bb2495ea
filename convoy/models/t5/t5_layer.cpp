#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "convoy/models/ranks_of.h"
#include "convoy/models/t5/relative_bias.h"
#include "convoy/models/t5/t5.h"
#include "convoy/nn/attention/attention.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/layers/add_norm.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

// Shapes: B rows, T positions, S positions that are looked at, D = d_model, H = num_heads,
// E = d_kv, F = d_ff.
namespace convoy::models {

namespace {

using nn::Init;
using nn::ParamPtr;

/// Length by which positions address random draws, beyond that of any text.
constexpr int64_t kLongest = int64_t{1} << 20;

/// Numbers of the random draws of a layer.
enum Site { kAttention, kAfterAttention, kCross, kAfterCross, kInner, kAfterFeedForward };

class T5Layer : public nn::Block {
 public:
  T5Layer(const T5Config& config, const std::string& stack, int64_t index)
      : Block(fmt::format("{}.block.{}", stack, index)),
        config_(config),
        decodes_(stack == "decoder") {
    const int64_t D = config.d_model, H = config.num_heads;
    self_ = declare_attention("layer.0.SelfAttention");
    if (index == 0) {
      nn::ParamSpec spec{name() + ".layer.0.SelfAttention.relative_attention_bias.weight",
                         {config.relative_attention_num_buckets, H},
                         normal(static_cast<double>(D))};
      spec.decay = spec.read_in_backward = false;
      spec.cut = {.dim = 1};
      bias_ = declare(std::move(spec));
    }
    self_norm_ = declare_norm_of("layer.0");
    if (decodes_) {
      cross_ = declare_attention("layer.1.EncDecAttention");
      cross_norm_ = declare_norm_of("layer.1");
    }
    declare_feed_forward(decodes_ ? "layer.2" : "layer.1");
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto hidden = in.find("hidden");
    if (hidden == in.end()) return in;  // of an encoder that has spoken
    auto out = in;
    const auto ranks = ranks_of(in, context);
    auto x = nn::with_norm(hidden->second, norm(self_norm_));
    if (bias_) {
      const int64_t length = ranks.shares() ? ranks.length() : x.states.size(1);
      out["position_bias"] = position_bias(length, context);
    }
    const auto add = [&](const at::Tensor& added, Site site, const ParamPtr& next) {
      x = nn::add_dropped_norm(x.states, added, norm(next), config_.dropout_rate, context, site,
                               ranks);
    };
    add(self_attention(x.rows, out, ranks, context), kAfterAttention,
        decodes_ ? cross_norm_ : feed_norm_);
    if (decodes_) add(cross_attention(x.rows, in, ranks, context), kAfterCross, feed_norm_);
    const auto fed = feed_forward(x.rows, ranks, context);
    out["hidden"] =
        nn::add_dropped(x.states, fed, config_.dropout_rate, context, kAfterFeedForward, ranks);
    return out;
  }

  bool takes_tensor_ranks() const override { return true; }
  bool takes_sequence_parallel() const override { return true; }
  std::string cost_key() const override {
    return fmt::format("{} {} heads {} {}", decodes_ ? "decoder" : "encoder", config_.num_heads,
                       config_.feed_forward_proj, config_.dropout_rate);
  }

 private:
  struct Attention {
    ParamPtr query, key, value, mixed;
  };

  at::Tensor position_bias(int64_t T, const nn::Context& context) const {
    const int64_t seen = decodes_ && context.cache != nullptr ? context.cache->length() : 0;
    return relative_bias(bias_, T, seen,
                         {config_.relative_attention_num_buckets,
                          config_.relative_attention_max_distance, !decodes_});
  }

  at::Tensor self_attention(const at::Tensor& normed, const nn::Bundle& in,
                            const nn::TensorRanks& ranks, const nn::Context& context) const {
    const auto read = nn::to_columns(normed, self_.query, ranks);
    auto options = attention_options(kAttention, in, "key_mask");
    options.causal = decodes_;
    options.bias = in.at("position_bias");
    const auto qkv = heads(read, {self_.query, self_.key, self_.value}, ranks);
    return joined(nn::attention(qkv[0], qkv[1], qkv[2], options, context), self_.mixed, ranks);
  }

  at::Tensor cross_attention(const at::Tensor& normed, const nn::Bundle& in,
                             const nn::TensorRanks& ranks, const nn::Context& context) const {
    const auto read = nn::to_columns(normed, cross_.query, ranks);
    auto options = attention_options(kCross, in, "encoder_mask");
    options.causal = false;
    const auto make = [&]() -> nn::KvCache::Seen {
      const auto of_encoder =
          ranks.shares() ? ranks_of(in.at("encoder_input_ids"), context) : ranks;
      const auto encoded = nn::to_columns(in.at("encoder_hidden"), cross_.key, of_encoder);
      const auto seen =
          heads(encoded, {cross_.key, cross_.value}, of_encoder, nn::SumOrder::LastToFirst);
      return {seen[0], seen[1]};
    };
    const auto query = heads(read, {cross_.query}, ranks)[0];
    return joined(nn::cross_attention(query, make, options, context), cross_.mixed, ranks);
  }

  at::Tensor feed_forward(const at::Tensor& normed, const nn::TensorRanks& ranks,
                          const nn::Context& context) const {
    const auto read = nn::to_columns(normed, inner_, ranks);
    std::vector<nn::DenseParams> into{{inner_, nullptr}};
    if (config_.gated()) into.push_back({linear_, nullptr});
    auto factors = nn::linears(read, into, ranks);
    factors.resize(2);
    auto inner = nn::activate(config_.activation(), factors[0], factors[1]);
    inner = nn::dropout(inner, config_.dropout_rate, context, kInner, {inner.size(1), config_.d_ff},
                        {0, inner_->begin()});
    return product(nn::for_result(inner, context), out_, ranks);
  }

  nn::AttentionOptions attention_options(Site site, const nn::Bundle& in, const char* mask) const {
    nn::AttentionOptions options;
    if (auto found = in.find(mask); found != in.end()) options.key_mask = found->second;
    options.dropout = config_.dropout_rate;
    options.max_length = kLongest;
    options.site = site;
    options.scale = 1;
    options.first_head = self_.query->begin() / config_.d_kv;
    return options;
  }

  std::vector<at::Tensor> heads(const nn::Operand& x, const std::vector<ParamPtr>& weights,
                                const nn::TensorRanks& ranks,
                                nn::SumOrder grads = nn::SumOrder::FirstToLast) const {
    std::vector<nn::DenseParams> dense;
    for (const auto& weight : weights) dense.push_back({weight, nullptr});
    auto out = nn::linears(x, dense, ranks, grads);
    for (auto& t : out) t = t.unflatten(2, {-1, config_.d_kv}).transpose(1, 2);
    return out;
  }
  nn::RowNorm norm(const ParamPtr& weight) const {
    return {{weight, nullptr}, config_.layer_norm_epsilon};
  }
  static at::Tensor joined(const at::Tensor& mixed, const ParamPtr& weight,
                           const nn::TensorRanks& ranks) {
    return product(mixed.transpose(1, 2).flatten(2, 3), weight, ranks);
  }
  static at::Tensor product(const nn::Operand& x, const ParamPtr& weight,
                            const nn::TensorRanks& ranks) {
    return nn::linear(x, weight, nullptr, false, ranks);
  }

  /// Initial values for a product with `terms` terms.
  Init normal(double terms) const {
    return Init::normal(config_.initializer_factor / std::sqrt(terms));
  }
  ParamPtr matrix(const std::string& leaf, int64_t in, int64_t out, Init init,
                  const parallel::TensorCut& cut) {
    return declare_matrix(name() + "." + leaf + ".weight", {out, in}, init, cut);
  }
  ParamPtr declare_norm_of(const std::string& leaf) {
    return declare_vector(name() + "." + leaf + ".layer_norm.weight", config_.d_model,
                          Init::ones());
  }
  Attention declare_attention(const std::string& leaf) {
    const int64_t D = config_.d_model, inner = config_.num_heads * config_.d_kv;
    const auto d = static_cast<double>(D), e = static_cast<double>(config_.d_kv);
    const parallel::TensorCut heads{.dim = 0, .granule = config_.d_kv};
    return {matrix(leaf + ".q", D, inner, normal(d * e), heads),
            matrix(leaf + ".k", D, inner, normal(d), heads),
            matrix(leaf + ".v", D, inner, normal(d), heads),
            matrix(leaf + ".o", inner, D, normal(static_cast<double>(inner)),
                   {.dim = 1, .granule = config_.d_kv})};
  }
  void declare_feed_forward(const std::string& layer) {
    const int64_t D = config_.d_model, F = config_.d_ff;
    const auto into = normal(static_cast<double>(D));
    const auto leaf = layer + ".DenseReluDense.";
    inner_ = matrix(leaf + (config_.gated() ? "wi_0" : "wi"), D, F, into, {.dim = 0});
    if (config_.gated()) linear_ = matrix(leaf + "wi_1", D, F, into, {.dim = 0});
    out_ = matrix(leaf + "wo", F, D, normal(static_cast<double>(F)), {.dim = 1});
    feed_norm_ = declare_norm_of(layer);
  }

  T5Config config_;
  bool decodes_;
  Attention self_, cross_;
  ParamPtr bias_, self_norm_, cross_norm_, feed_norm_, inner_, linear_, out_;
};

}  // namespace

nn::BlockPtr make_t5_layer(const T5Config& config, const std::string& stack, int64_t index) {
  return std::make_shared<T5Layer>(config, stack, index);
}

}  // namespace convoy::models
