#include "convoy/models/bert/bert.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <utility>

#include "convoy/models/ranks_of.h"
#include "convoy/nn/attention/attention.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/layers/wanted_tokens.h"

// Shapes: B rows, T positions, D = hidden_size, H = num_attention_heads, F = intermediate_size.
namespace convoy::models {

namespace {

/// Names of a layer's parameters in Hugging Face's files.
struct Names {
  std::string block, query, key, value, mixed, mixed_norm, inner, out, out_norm;
};

Names bert_names(const std::string& prefix, int64_t index) {
  const auto layer = fmt::format("{}.encoder.layer.{}", prefix, index);
  const auto self = layer + ".attention.self.", mixed = layer + ".attention.output.";
  return {layer,
          self + "query",
          self + "key",
          self + "value",
          mixed + "dense",
          mixed + "LayerNorm",
          layer + ".intermediate.dense",
          layer + ".output.dense",
          layer + ".output.LayerNorm"};
}

/// Returns names of ALBERT's layers, all of which read the parameters of the first.
Names albert_names(const std::string& prefix, int64_t index) {
  const auto shared = prefix + ".encoder.albert_layer_groups.0.albert_layers.0.";
  const auto attention = shared + "attention.";
  return {fmt::format("{}.encoder.layer.{}", prefix, index),
          attention + "query",
          attention + "key",
          attention + "value",
          attention + "dense",
          attention + "LayerNorm",
          shared + "ffn",
          shared + "ffn_output",
          shared + "full_layer_layer_norm"};
}

class BertLayer : public nn::Block {
 public:
  BertLayer(const BertConfig& config, const Names& names, Gives gives)
      : Block(names.block), config_(config), gives_(gives) {
    const int64_t D = config.hidden_size, F = config.intermediate_size;
    const int64_t head = D / config.num_attention_heads;
    query_ = dense(names.query, D, D, {0, {}, head});
    key_ = dense(names.key, D, D, {0, {}, head});
    value_ = dense(names.value, D, D, {0, {}, head});
    mixed_ = dense(names.mixed, D, D, {1, {}, head});
    mixed_norm_ = declare_norm(names.mixed_norm, D);
    inner_ = dense(names.inner, D, F, {0});
    out_ = dense(names.out, F, D, {1});
    out_norm_ = declare_norm(names.out_norm, D);
  }

  /// Shares the parameters of `first`, under another block name.
  BertLayer(const BertLayer& first, const std::string& block, Gives gives)
      : Block(block),
        config_(first.config_),
        gives_(gives),
        query_(tied(first.query_)),
        key_(tied(first.key_)),
        value_(tied(first.value_)),
        mixed_(tied(first.mixed_)),
        inner_(tied(first.inner_)),
        out_(tied(first.out_)),
        mixed_norm_{tie(first.mixed_norm_.weight), tie(first.mixed_norm_.bias)},
        out_norm_{tie(first.out_norm_.weight), tie(first.out_norm_.bias)} {}

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto& all = in.at("hidden");
    const auto ranks_of_all = ranks_of(in, context);
    const bool first = gives_ == Gives::First;
    const auto wanted = wanted_of(in, ranks_of_all);
    const auto& ranks = wanted.ranks();
    const auto asks = first ? first_states(all, ranks_of_all) : all;
    const auto mixed = attention(asks, ranks, all, ranks_of_all, in, context);
    auto x = wanted.of(asks);
    const auto attended = nn::linear(wanted.of_whole(mixed), mixed_, ranks);
    const double dropped = config_.hidden_dropout_prob;
    x = wanted.add_norm(x, attended, dropped, context, 1, norm(mixed_norm_)).rows;
    const auto inner = nn::linear(nn::to_columns(x, inner_.weight, ranks), inner_, ranks);
    const auto fed = nn::linear(nn::activate(config_.hidden_act, inner), out_, ranks);
    x = wanted.add_norm(x, fed, config_.feed_forward_dropout(), context, 2, norm(out_norm_)).rows;
    auto out = in;
    out["hidden"] = wanted.put_back(x, asks);
    return out;
  }

  bool takes_tensor_ranks() const override { return true; }
  bool takes_sequence_parallel() const override { return true; }
  bool takes_context_ranks() const override { return gives_ == Gives::All; }
  std::string cost_key() const override {
    return fmt::format("{} heads {} {} {} {}{}", config_.num_attention_heads, config_.hidden_act,
                       config_.attention_probs_dropout_prob, config_.hidden_dropout_prob,
                       config_.feed_forward_dropout(),
                       gives_ == Gives::First   ? " first only"
                       : gives_ == Gives::Asked ? " asked only"
                                                : "");
  }

 private:
  nn::RowNorm norm(const nn::NormParams& params) const {
    return {params, config_.layer_norm_eps, nn::ReadBy::Anything};
  }

  /// States of the first position of each row.
  static at::Tensor first_states(const at::Tensor& all, const nn::TensorRanks& ranks) {
    if (!ranks.shares()) return all.narrow(1, 0, 1).contiguous();
    return ranks.select(all, ranks.first_tokens(all.device()), ranks.among_first());
  }

  nn::WantedTokens wanted_of(const nn::Bundle& in, const nn::TensorRanks& ranks) const {
    if (gives_ == Gives::First) return nn::WantedTokens(ranks.among_first());
    return gives_ == Gives::All ? nn::WantedTokens(ranks) : asked_tokens(in, ranks);
  }

  /// Attention of the positions of `x` over those of `all`.
  at::Tensor attention(const at::Tensor& x, const nn::TensorRanks& ranks, const at::Tensor& all,
                       const nn::TensorRanks& ranks_of_all, const nn::Bundle& in,
                       const nn::Context& context) {
    const int64_t E = config_.hidden_size / config_.num_attention_heads;
    const int64_t D = query_.weight->shape()[0];  // of the heads that are here
    auto heads = [&](const nn::Operand& of, const std::vector<nn::DenseParams>& dense,
                     const nn::TensorRanks& ranks_of) {
      auto out = nn::linears(of, dense, ranks_of);
      for (auto& t : out) t = t.unflatten(2, {D / E, E}).transpose(1, 2);
      return out;
    };
    const auto read = nn::to_columns(all, query_.weight, ranks_of_all);
    std::vector<at::Tensor> qkv;
    if (gives_ == Gives::First) {
      const auto asks = nn::to_columns(x, query_.weight, ranks);
      qkv = heads(read, {key_, value_}, ranks_of_all);
      qkv.insert(qkv.begin(), heads(asks, {query_}, ranks)[0]);
    } else {
      qkv = heads(read, {query_, key_, value_}, ranks_of_all);
    }
    nn::AttentionOptions options;
    options.causal = false;
    if (auto mask = in.find("key_mask"); mask != in.end()) options.key_mask = mask->second;
    options.dropout = config_.attention_probs_dropout_prob;
    options.max_length = config_.max_position_embeddings;
    options.first_head = query_.weight->begin() / E;
    options.ranks = ranks_of_all.positions();
    options.name = name() + ".attention";
    return nn::attention(qkv[0], qkv[1], qkv[2], options, context).transpose(1, 2).flatten(2, 3);
  }

  nn::DenseParams dense(const std::string& name, int64_t in, int64_t out,
                        const parallel::TensorCut& cut) {
    return declare_dense(name, in, out, config_.initializer_range, cut);
  }
  nn::DenseParams tied(const nn::DenseParams& of) { return {tie(of.weight), tie(of.bias)}; }

  BertConfig config_;
  Gives gives_;
  nn::DenseParams query_, key_, value_, mixed_, inner_, out_;
  nn::NormParams mixed_norm_, out_norm_;
};

}  // namespace

nn::BlockPtr make_bert_layer(const BertConfig& config, const std::string& prefix, int64_t index,
                             Gives gives) {
  return std::make_shared<BertLayer>(config, bert_names(prefix, index), gives);
}

nn::BlockList make_albert_layers(const BertConfig& config, const std::string& prefix, int64_t count,
                                 Gives last) {
  nn::BlockList out;
  std::shared_ptr<BertLayer> first;
  for (int64_t i = 0; i < count; ++i) {
    const auto names = albert_names(prefix, i);
    const auto gives = i + 1 == count ? last : Gives::All;
    if (first) {
      out.push_back(std::make_shared<BertLayer>(*first, names.block, gives));
    } else {
      out.push_back(first = std::make_shared<BertLayer>(config, names, gives));
    }
  }
  return out;
}

}  // namespace convoy::models
