#include "convoy/models/sasrec/sasrec.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "convoy/models/ranks_of.h"
#include "convoy/models/sasrec/causal_layer.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/layers/add_norm.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/layers.h"

namespace convoy::models {

namespace {

class SasrecLayer : public CausalLayer {
 public:
  SasrecLayer(const SasrecConfig& config, const std::string& name, bool asked_only)
      : CausalLayer(config, name, asked_only) {
    const int64_t D = config.hidden_size, F = config.intermediate_size;
    query_norm_ = declare_norm(name + ".q_layer_norm", D);
    fed_norm_ = declare_norm(name + ".ff_layer_norm", D);
    inner_ = declare_dense(name + ".feed_forward.ff_linear_1", D, F, config.initializer_range, {0});
    outer_ = declare_dense(name + ".feed_forward.ff_linear_2", F, D, config.initializer_range, {1});
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto ranks_of_all = ranks_of(in, context);
    const auto wanted = wanted_of(in, ranks_of_all, context);
    const auto& ranks = wanted.ranks();
    const auto [x, asking] = nn::with_norm(in.at("hidden"), norm(query_norm_));
    const auto mixed = attention(asking, x, ranks_of_all, wanted, context);
    const auto fed = nn::add_norm(wanted.of(asking), mixed, norm(fed_norm_)).rows;
    auto inner = nn::linear(nn::to_columns(fed, inner_.weight, ranks), inner_, ranks);
    inner = drop_inner(nn::activate(config_.hidden_act, inner), inner_.weight, context);
    const auto added = nn::linear(nn::for_result(inner, context), outer_, ranks);
    auto out = in;
    out["hidden"] =
        wanted.put_back(wanted.add_dropped(fed, added, config_.dropout, context, kFirstSite), x);
    return out;
  }

 private:
  nn::RowNorm norm(const nn::NormParams& params) const {
    return {params, config_.layer_norm_eps, nn::ReadBy::Anything};
  }

  nn::NormParams query_norm_, fed_norm_;
  nn::DenseParams inner_, outer_;
};

}  // namespace

std::string SasrecConfig::cost_key() const {
  return fmt::format("{} heads {} {}", num_attention_heads, hidden_act, dropout);
}

nn::BlockPtr make_sasrec_layer(const SasrecConfig& config, const std::string& prefix, int64_t index,
                               bool asked_only) {
  return std::make_shared<SasrecLayer>(config, fmt::format("{}.{}", prefix, index), asked_only);
}

}  // namespace convoy::models
