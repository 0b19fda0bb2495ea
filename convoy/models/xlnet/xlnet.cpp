#include "convoy/models/xlnet/xlnet.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "convoy/models/ranks_of.h"
#include "convoy/nn/attention/relative_attention.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/layers/add_norm.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/layers/wanted_tokens.h"

// Shapes: B rows, T positions, D = d_model, H heads, E width of a head.
namespace convoy::models {

namespace {

using nn::Init;
using nn::ParamPtr;

class XlnetLayer : public nn::Block {
 public:
  XlnetLayer(const XlnetConfig& config, const std::string& prefix, int64_t index, bool asked_only)
      : Block(fmt::format("{}.layer.{}", prefix, index)),
        config_(config),
        last_(index + 1 == config.n_layer),
        asked_only_(asked_only) {
    const int64_t D = config.d_model, H = config.n_head, E = D / H;
    const auto init = Init::normal(config.initializer_range);
    const auto product = [&](const char* leaf) {
      return declare_matrix(name() + ".rel_attn." + leaf, {D, H, E}, init);
    };
    query_ = product("q");
    key_ = product("k");
    value_ = product("v");
    out_ = product("o");
    distance_ = product("r");
    distance_bias_ = declare(without_decay("r_r_bias", {H, E}, init));
    word_bias_ = declare(without_decay("r_w_bias", {H, E}, init));
    attention_norm_ = declare_norm(name() + ".rel_attn.layer_norm", D);
    inner_ = declare_dense(name() + ".ff.layer_1", D, config.d_inner, config.initializer_range);
    outer_ = declare_dense(name() + ".ff.layer_2", config.d_inner, D, config.initializer_range);
    fed_norm_ = declare_norm(name() + ".ff.layer_norm", D);
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto& content = in.at("hidden");
    const auto keys = keys_of(content, in.at("distances"));
    const auto limits = in.find("seen");
    const auto seen = limits == in.end() ? at::Tensor() : limits->second;
    auto out = in;
    const auto query = in.find("query");
    const nn::WantedTokens all{nn::TensorRanks()};
    const auto asked = asked_only_ ? asked_tokens(in, nn::TensorRanks()) : all;
    const bool is_read_everywhere = !last_ || !asked_only_;
    if (query == in.end() || is_read_everywhere) {
      out["hidden"] = stream(content, keys, seen, is_read_everywhere ? all : asked, context, 1);
    }
    if (query != in.end()) {
      const auto& visible = in.at("visible").unsqueeze(1);
      out["query"] = stream(query->second, keys, visible, asked, context, 1 + kSites);
    }
    return out;
  }

  std::string cost_key() const override {
    return fmt::format("{} heads {} {}{}{}", config_.n_head, config_.ff_activation, config_.dropout,
                       last_ ? " last" : "", asked_only_ ? " asked only" : "");
  }

 private:
  static constexpr int64_t kSites = 5;  // of random draws, in each stream

  /// Keys and values [B, H, T, E], and keys by distance [H, 2 T, E].
  struct Keys {
    at::Tensor k, v, r;
  };

  at::Tensor heads(const at::Tensor& x, const ParamPtr& weight) const {
    return in_heads(nn::linear(x, weight, nullptr, /*in_first=*/true));
  }
  at::Tensor in_heads(const at::Tensor& t) const {
    const int64_t H = config_.n_head;
    return t.view({t.size(0), t.size(1), H, config_.d_model / H}).transpose(1, 2);
  }

  Keys keys_of(const at::Tensor& x, const at::Tensor& far) const {
    return {heads(x, key_), heads(x, value_), heads(far.unsqueeze(0), distance_).squeeze(0)};
  }

  /// Layer's output for one stream `x` [B, T, D], content or query.
  at::Tensor stream(const at::Tensor& x, const Keys& keys, const at::Tensor& seen,
                    const nn::WantedTokens& wanted, const nn::Context& context,
                    int64_t site) const {
    const auto drop = [&](const at::Tensor& t) {
      return wanted.dropout(t, config_.dropout, context, site++);
    };
    const auto own = wanted.of(x);
    const auto sought = nn::linear(own, query_, nullptr, /*in_first=*/true);
    const nn::RelativeQueries queries{in_heads(wanted.put_back(sought, x)), word_bias_,
                                      distance_bias_};
    const nn::RelativeOptions options{
        .seen = seen, .dropout = config_.dropout, .max_length = config_.max_length, .site = site++};
    auto mixed = nn::relative_attention(queries, keys.k, keys.v, keys.r, options, context);
    mixed = wanted.of(mixed.transpose(1, 2).reshape(x.sizes()));
    const auto added = [&](const at::Tensor& to, const at::Tensor& more, const auto& norm) {
      return nn::add_norm(to, drop(more), {norm, config_.layer_norm_eps, nn::ReadBy::Anything})
          .rows;
    };
    auto y = added(own, nn::linear(mixed, out_, nullptr, /*in_first=*/false), attention_norm_);
    const auto inner = drop(nn::activate(config_.ff_activation, nn::linear(y, inner_)));
    y = added(y, nn::linear(inner, outer_), fed_norm_);
    return wanted.put_back(last_ ? drop(y) : y, x);
  }

  nn::ParamSpec without_decay(const char* leaf, std::vector<int64_t> shape, Init init) const {
    return {name() + ".rel_attn." + leaf, std::move(shape), init, /*decay=*/false};
  }

  XlnetConfig config_;
  bool last_;  ///< drops what it returns
  bool asked_only_;
  ParamPtr query_, key_, value_, out_, distance_, distance_bias_, word_bias_;
  nn::NormParams attention_norm_, fed_norm_;
  nn::DenseParams inner_, outer_;
};

}  // namespace

void put_xlnet_guides(nn::Bundle& bundle, bool causal) {
  const auto& x = bundle.at("hidden");
  const int64_t T = x.size(1);
  const auto flags = at::device(x.device()).dtype(at::kBool);
  const auto visible = bundle.find("visible"), mask = bundle.find("key_mask");
  bundle["distances"] = nn::distance_sinusoids(T, x.size(2), x.device());
  if (visible != bundle.end()) {
    bundle["seen"] = visible->second.logical_or(at::eye(T, flags)).unsqueeze(1);
  } else if (causal) {
    bundle["seen"] = at::ones({1, 1, T, T}, flags).tril();
  } else if (mask != bundle.end()) {
    bundle["seen"] = mask->second.unsqueeze(1).unsqueeze(1).logical_or(at::eye(T, flags));
  }
}

void drop_distances(nn::Bundle& bundle, double rate, int64_t most, const nn::Context& context) {
  constexpr int64_t kSite = 2;  // of the first block
  auto& distances = bundle.at("distances");
  const int64_t T = distances.size(0) / 2;
  auto of_step = context;
  of_step.samples = at::zeros({1}, at::kLong);
  // The mask is drawn by distance, so it does not depend on the length of the batch.
  const int64_t longest = std::max(most, T);
  distances = nn::dropout(distances.unsqueeze(0), rate, of_step, kSite,
                          {2 * longest, distances.size(1)}, {longest - T, 0})
                  .squeeze(0);
}

nn::BlockPtr make_xlnet_layer(const XlnetConfig& config, const std::string& prefix, int64_t index,
                              bool asked_only) {
  return std::make_shared<XlnetLayer>(config, prefix, index, asked_only);
}

}  // namespace convoy::models
