#include <ATen/ATen.h>
#include <fmt/format.h>

#include "convoy/models/ranks_of.h"
#include "convoy/models/sasrec/causal_layer.h"
#include "convoy/models/sasrec/sasrec.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/layers/add_norm.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/layers.h"

namespace convoy::models {

namespace {

class LigrLayer : public CausalLayer {
 public:
  LigrLayer(const SasrecConfig& config, const std::string& name, bool asked_only)
      : CausalLayer(config, name, asked_only) {
    const int64_t D = config.hidden_size, F = config.intermediate_size;
    const auto init = nn::Init::normal(config.initializer_range);
    const auto product = [&](const char* leaf, std::vector<int64_t> shape, int64_t dim) {
      return declare_matrix(name + ".feed_forward." + leaf + ".weight", std::move(shape), init,
                            {dim});
    };
    norm_1_ = declare_norm(name + ".layer_norm_1", D);
    norm_2_ = declare_norm(name + ".layer_norm_2", D);
    inner_ = product("ff_linear_1", {F, D}, 0);
    outer_ = product("ff_linear_2", {D, F}, 1);
    times_ = product("ff_linear_3", {F, D}, 0);
    gate_1_ = declare_dense(name + ".gating_linear_1", D, D, config.initializer_range);
    gate_2_ = declare_dense(name + ".gating_linear_2", D, D, config.initializer_range);
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto ranks = ranks_of(in, context);
    const auto wanted = wanted_of(in, ranks, context);
    const auto& all = in.at("hidden");
    const auto first = nn::with_norm(all, {norm_1_, config_.layer_norm_eps});
    const auto x = wanted.of(first.states);
    const auto attended = attention(first.rows, first.rows, ranks, wanted, context);
    const auto second = nn::add_norm(x, gated(x, attended, gate_1_, kFirstSite, wanted, context),
                                     {norm_2_, config_.layer_norm_eps});
    const auto fed = feed_forward(second.rows, wanted.ranks(), context);
    const auto& states = second.states;
    const auto added = gated(states, fed, gate_2_, kFirstSite + 1, wanted, context);
    auto out = in;
    out["hidden"] = wanted.put_back(states + added, all);
    return out;
  }

 private:
  at::Tensor feed_forward(const at::Tensor& normed, const nn::TensorRanks& ranks,
                          const nn::Context& context) const {
    const auto read = nn::to_columns(normed, inner_, ranks);
    const auto factors = nn::linears(read, {{inner_, nullptr}, {times_, nullptr}}, ranks);
    const auto inner = nn::activate(config_.hidden_act, factors[0], factors[1]);
    return nn::linear(drop_inner(inner, inner_, context), outer_, nullptr, /*in_first=*/false,
                      ranks);
  }

  /// Term of the gated residual: `added` times the sigmoid of a linear map of x.
  at::Tensor gated(const at::Tensor& x, const at::Tensor& added, const nn::DenseParams& gate,
                   int64_t site, const nn::WantedTokens& wanted, const nn::Context& context) const {
    return at::sigmoid(nn::linear(x, gate)) * wanted.dropout(added, config_.dropout, context, site);
  }

  nn::NormParams norm_1_, norm_2_;
  nn::ParamPtr inner_, outer_, times_;
  nn::DenseParams gate_1_, gate_2_;
};

}  // namespace

nn::BlockPtr make_ligr_layer(const SasrecConfig& config, const std::string& prefix, int64_t index,
                             bool asked_only) {
  return std::make_shared<LigrLayer>(config, fmt::format("{}.{}", prefix, index), asked_only);
}

}  // namespace convoy::models
