#include "convoy/models/gpt2/gpt2.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/models/causal_head.h"
#include "convoy/models/ranks_of.h"
#include "convoy/models/text_block.h"
#include "convoy/nn/attention/attention.h"
#include "convoy/nn/documents.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

// Shapes: B rows, T positions, D = n_embd, H = n_head, F = inner width, V vocabulary.
namespace convoy::models {

namespace {

using nn::Init;
using nn::ParamPtr;

class Gpt2Layer : public TextBlock {
 public:
  Gpt2Layer(const Gpt2Config& config, const std::string& prefix, int64_t index, bool asked_only)
      : TextBlock(fmt::format("{}.h.{}", prefix, index)), config_(config), asked_only_(asked_only) {
    const int64_t D = config.n_embd;
    if (config.scale_attn_weights) scale_ /= std::sqrt(static_cast<double>(D / config.n_head));
    if (config.scale_attn_by_inverse_layer_idx) scale_ /= static_cast<double>(index + 1);
    const int64_t F = config.n_inner.value_or(4 * D), head = D / config.n_head;
    const double deviation = config.initializer_range;
    // GPT-2 scales the projections into the residual stream by the depth.
    const double residual = deviation / std::sqrt(2.0 * static_cast<double>(config.n_layer));
    ln_1_ = declare_norm(name() + ".ln_1", D);
    attn_weight_ = matrix("attn.c_attn", D, 3 * D, deviation, {1, {D, D, D}, head});
    attn_bias_ = bias("attn.c_attn", 3 * D, {0, {D, D, D}, head});
    proj_weight_ = matrix("attn.c_proj", D, D, residual, {0, {}, head});
    proj_bias_ = bias("attn.c_proj", D);
    ln_2_ = declare_norm(name() + ".ln_2", D);
    fc_weight_ = matrix("mlp.c_fc", D, F, deviation, {1});
    fc_bias_ = bias("mlp.c_fc", F, {0});
    out_weight_ = matrix("mlp.c_proj", F, D, residual, {0});
    out_bias_ = bias("mlp.c_proj", D);
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto ranks = ranks_of(in, context);
    const bool all = !asked_only_ || context.mode == nn::Mode::Train;
    const auto wanted = all ? nn::WantedTokens(ranks) : asked_tokens(in, ranks);
    const auto first = nn::with_norm(in.at("hidden"), norm(ln_1_));
    const auto attended = attention(first.rows, in, ranks, wanted, context);
    const auto second = wanted.add_norm(wanted.of(first.states), attended, config_.resid_pdrop,
                                        context, 1, norm(ln_2_));
    const auto fed = feed_forward(second.rows, wanted.ranks(), context);
    const auto x = wanted.add_dropped(second.states, fed, config_.resid_pdrop, context, 2);
    auto out = in;
    out["hidden"] = wanted.put_back(x, in.at("hidden"));
    return out;
  }

  std::string cost_key() const override {
    return fmt::format("{} heads {} {} {} {}", config_.n_head, config_.activation_function,
                       config_.attn_pdrop, config_.resid_pdrop, config_.reorder_and_upcast_attn);
  }

 private:
  at::Tensor attention(const at::Tensor& normed, const nn::Bundle& in, const nn::TensorRanks& ranks,
                       const nn::WantedTokens& wanted, const nn::Context& context) const {
    const int64_t E = config_.n_embd / config_.n_head;
    const int64_t D = proj_weight_->shape()[0];  // of the heads that are here
    auto joined = nn::linear(nn::to_columns(normed, attn_weight_, ranks), attn_weight_, attn_bias_,
                             true, ranks);
    const int64_t B = joined.size(0), T = joined.size(1);
    if (config_.reorder_and_upcast_attn) joined = joined.to(at::kFloat);
    auto qkv = joined.split(D, 2);
    auto heads = [&](const at::Tensor& t) { return t.view({B, T, D / E, E}).transpose(1, 2); };
    nn::AttentionOptions options;
    options.first_head = proj_weight_->begin() / E;
    options.dropout = config_.attn_pdrop;
    options.max_length = std::max(config_.n_positions, T);
    options.scale = scale_;
    options.ranks = ranks.positions();
    options.name = name() + ".attn";
    if (auto mask = in.find("key_mask"); mask != in.end()) options.key_mask = mask->second;
    options.documents = nn::documents_of(context.batch(in));
    auto mixed = nn::attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), options, context);
    return nn::linear(wanted.of_whole(mixed.transpose(1, 2).reshape({B, T, D})), proj_weight_,
                      proj_bias_, true, wanted.ranks());
  }

  at::Tensor feed_forward(const at::Tensor& normed, const nn::TensorRanks& ranks,
                          const nn::Context& context) const {
    auto inner =
        nn::linear(nn::to_columns(normed, fc_weight_, ranks), fc_weight_, fc_bias_, true, ranks);
    auto active = nn::activate(config_.activation_function, inner);
    return nn::linear(nn::for_result(active, context), out_weight_, out_bias_, true, ranks);
  }

  nn::RowNorm norm(const nn::NormParams& params) const {
    return {params, config_.layer_norm_epsilon};
  }

  ParamPtr matrix(const char* leaf, int64_t in, int64_t out, double deviation,
                  parallel::TensorCut cut) {
    nn::ParamSpec spec{name() + "." + leaf + ".weight", {in, out}, Init::normal(deviation)};
    spec.cut = std::move(cut);
    spec.in_first = true;
    return declare(std::move(spec));
  }

  ParamPtr bias(const char* leaf, int64_t size, parallel::TensorCut cut = {}) {
    return declare_vector(name() + "." + leaf + ".bias", size, Init::zeros(), std::move(cut));
  }

  Gpt2Config config_;
  bool asked_only_;
  double scale_ = 1;
  nn::NormParams ln_1_, ln_2_;
  ParamPtr attn_weight_, attn_bias_, proj_weight_, proj_bias_;
  ParamPtr fc_weight_, fc_bias_, out_weight_, out_bias_;
};

class Gpt2Input : public TextBlock {
 public:
  explicit Gpt2Input(const Gpt2Config& config)
      : TextBlock("embeddings"), rate_(config.embd_pdrop), max_length_(config.n_positions) {
    const auto init = Init::normal(config.initializer_range);
    table_ = declare_table("transformer.wte.weight", {config.vocab_size, config.n_embd}, init, {0});
    positions_ = declare_table("transformer.wpe.weight", {max_length_, config.n_embd}, init);
  }

  const ParamPtr& table() const { return table_; }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto& ids = in.at("input_ids");
    const int64_t V = table_->spec().shape[0];
    const auto& batch = context.batch(in);
    check_ids(batch.at("input_ids"), V, "input_ids");
    const auto at = in.find("positions");
    if (at != in.end()) check_ids(batch.at("positions"), max_length_, "positions");
    if (at == in.end() && ids.size(1) > max_length_) {
      fail<UsageError>("models",
                       "rows of {} ids; expected at most n_positions = {}; try a shorter "
                       "block_size",
                       ids.size(1), max_length_);
    }
    const auto ranks = ranks_of(ids, context);
    auto x = nn::embedding(ids, table_, false, ranks);
    x = at != in.end() ? x + nn::embedding(at->second, positions_, false, ranks)
                       : nn::add_positions(x, positions_, ranks);
    auto out = in;
    out["hidden"] = nn::dropout(x, rate_, context, 0, ranks);
    if (context.mode != nn::Mode::Predict) {
      put_targets(out, ranks.positions().own(causal_targets(batch, V)), x.device());
    }
    return out;
  }

 private:
  double rate_;
  int64_t max_length_;
  ParamPtr table_, positions_;
};

}  // namespace

nn::BlockPtr make_gpt2_layer(const Gpt2Config& config, const std::string& prefix, int64_t index,
                             bool asked_only) {
  return std::make_shared<Gpt2Layer>(config, prefix, index, asked_only);
}

Fields Gpt2Config::fields() {
  return {
      {"vocab_size", &vocab_size, "size of the vocabulary", 1, kMostIds},
      {"n_positions", &n_positions, "context length", 1, kMostIds, {}, {"max_position_embeddings"}},
      {"n_embd", &n_embd, "width of the hidden states", 1, kWidest, {}, {"hidden_size"}},
      {"n_layer", &n_layer, "layers", 0, kDeepest, {}, {"num_hidden_layers"}},
      {"n_head", &n_head, "attention heads", 1, kWidest, {}, {"num_attention_heads"}},
      {"n_inner", &n_inner, "width of the feed-forward layers; none = 4 x n_embd", 1, kWidest},
      {"activation_function", &activation_function, "activation of the feed-forward layers", 0, 0,
       nn::activations()},
      {"resid_pdrop", &resid_pdrop, "dropout on residual branches", 0, kMostDropped},
      {"embd_pdrop", &embd_pdrop, "dropout on embeddings", 0, kMostDropped},
      {"attn_pdrop", &attn_pdrop, "dropout on attention probabilities", 0, kMostDropped},
      {"layer_norm_epsilon", &layer_norm_epsilon, "epsilon of normalisation layers", 0},
      {"initializer_range", &initializer_range, "standard deviation of initial weights", 0},
      {"scale_attn_weights", &scale_attn_weights,
       "divide attention scores by the square root of the head's width"},
      {"scale_attn_by_inverse_layer_idx", &scale_attn_by_inverse_layer_idx,
       "divide them by the layer's number, too, counted from 1"},
      {"reorder_and_upcast_attn", &reorder_and_upcast_attn,
       "attention in fp32 with any compute dtype"},
      {"tie_word_embeddings", &tie_word_embeddings, "share the embedding with the output layer"},
      {"use_cache", &use_cache, "kept for other tools"},
      {"add_cross_attention", &add_cross_attention, "must be false; kept for other tools"},
      {"bos_token_id", &bos_token_id, "id that begins a text; kept for other tools"},
      {"eos_token_id", &eos_token_id, "id that ends a text; kept for other tools"},
      {"pad_token_id", &pad_token_id, "id of padding; kept for other tools"},
      {"summary_type", &summary_type, "kept for other tools"},
      {"summary_use_proj", &summary_use_proj, "kept for other tools"},
      {"summary_activation", &summary_activation, "kept for other tools"},
      {"summary_proj_to_labels", &summary_proj_to_labels, "kept for other tools"},
      {"summary_first_dropout", &summary_first_dropout, "kept for other tools"},
  };
}

void Gpt2Config::check_together() const {
  if (add_cross_attention) {
    fail<UsageError>("models", "add_cross_attention = true is not supported; expected false");
  }
  if (n_embd % n_head == 0) return;
  fail<UsageError>("models", "n_embd = {} does not divide into n_head = {} heads", n_embd, n_head);
}

nn::BlockList Gpt2Config::make_blocks() const {
  check();
  auto input = std::make_shared<Gpt2Input>(*this);
  nn::BlockList blocks{input};
  for (int64_t i = 0; i < n_layer; ++i) blocks.push_back(make_gpt2_layer(*this, "transformer", i));
  blocks.push_back(make_causal_head({.norm = "transformer.ln_f",
                                     .epsilon = layer_norm_epsilon,
                                     .table = input->table(),
                                     .tied = tie_word_embeddings,
                                     .initializer_range = initializer_range,
                                     .targets = causal_targets_of(vocab_size)}));
  return blocks;
}

WeightLayout Gpt2Config::layout() const {
  return {"transformer.",
          {".attn.bias", ".attn.masked_bias"},
          "lm_head.weight",
          tie_word_embeddings ? "transformer.wte.weight" : ""};
}

}  // namespace convoy::models
