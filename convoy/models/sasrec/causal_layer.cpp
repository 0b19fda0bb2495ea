#include "convoy/models/sasrec/causal_layer.h"

#include <ATen/ATen.h>

#include "convoy/models/ranks_of.h"
#include "convoy/nn/attention/attention.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/layers.h"

// Shapes: B rows, T positions, D = hidden_size, H heads, E width of a head.
namespace convoy::models {

CausalLayer::CausalLayer(const SasrecConfig& config, const std::string& name, bool asked_only)
    : Block(name), config_(config), asked_only_(asked_only) {
  const int64_t D = config.hidden_size, E = D / config.num_attention_heads;
  const auto product = [&](const char* leaf, const parallel::TensorCut& cut) {
    return declare_dense(name + ".multi_head_attn." + leaf, D, D, config.initializer_range, cut);
  };
  query_ = product("query", {0, {}, E});
  key_ = product("key", {0, {}, E});
  value_ = product("value", {0, {}, E});
  mixed_ = product("out_proj", {1, {}, E});
}

nn::WantedTokens CausalLayer::wanted_of(const nn::Bundle& in, const nn::TensorRanks& ranks,
                                        const nn::Context& context) const {
  const bool all = !asked_only_ || context.mode == nn::Mode::Train;
  return all ? nn::WantedTokens(ranks) : asked_tokens(in, ranks);
}

at::Tensor CausalLayer::attention(const at::Tensor& asking, const at::Tensor& seen,
                                  const nn::TensorRanks& ranks, const nn::WantedTokens& wanted,
                                  const nn::Context& context) const {
  const int64_t E = config_.hidden_size / config_.num_attention_heads;
  const int64_t num_heads = query_.weight->shape()[0] / E;  // that are here
  const auto heads = [&](const nn::Operand& of, const std::vector<nn::DenseParams>& dense) {
    auto out = nn::linears(of, dense, ranks);
    for (auto& t : out) t = t.unflatten(2, {num_heads, E}).transpose(1, 2);
    return out;
  };
  const auto read = nn::to_columns(seen, key_.weight, ranks);
  std::vector<at::Tensor> qkv;
  if (asking.is_same(seen)) {
    qkv = heads(read, {query_, key_, value_});
  } else {
    const auto asks = nn::to_columns(asking, query_.weight, ranks);
    qkv = heads(read, {key_, value_});
    qkv.insert(qkv.begin(), heads(asks, {query_})[0]);
  }
  nn::AttentionOptions options;
  options.dropout = config_.dropout;
  options.max_length = config_.max_length;
  options.first_head = query_.weight->begin() / E;
  const auto mixed = nn::attention(qkv[0], qkv[1], qkv[2], options, context);
  return nn::linear(wanted.of_whole(mixed.transpose(1, 2).flatten(2, 3)), mixed_, wanted.ranks());
}

at::Tensor CausalLayer::drop_inner(const at::Tensor& inner, const nn::ParamPtr& weight,
                                   const nn::Context& context) const {
  if (context.mode != nn::Mode::Train) return inner;
  return nn::dropout(inner, config_.dropout, context, kInnerSite,
                     {inner.size(1), config_.intermediate_size}, {0, weight->begin()});
}

}  // namespace convoy::models
