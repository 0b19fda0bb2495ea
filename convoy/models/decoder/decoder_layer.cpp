#include "convoy/models/decoder/decoder_layer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convoy/models/decoder/decoder_experts.h"
#include "convoy/models/decoder/delta_mixer.h"
#include "convoy/models/decoder/heads_here.h"
#include "convoy/models/decoder/layer_inputs.h"
#include "convoy/models/ranks_of.h"
#include "convoy/models/text_block.h"
#include "convoy/nn/attention/attention.h"
#include "convoy/nn/documents.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/layers/add_norm.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/layers/norms_of_columns.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

// Shapes: B rows, T positions, D = hidden_size, F = intermediate_size, H heads, K heads of keys,
// E width of a head.
namespace convoy::models {

namespace {

using nn::Init;
using nn::ParamPtr;

// Random draws of attention are those of site 0.
enum Sites : int64_t { kAfterAttention = 1, kAfterFeedForward = 2, kAfterInput = 3 };

/// Names in a bundle of keys and values [B, K, S, E] that layers of a type lend to later ones.
std::string lent(const char* what, LayerType type) {
  return fmt::format("lent_{}_{}", what, name_of(type));
}

class DecoderLayer : public TextBlock {
 public:
  DecoderLayer(const DecoderConfig& config, int64_t index, std::shared_ptr<RotaryAngles> angles)
      : TextBlock(fmt::format("{}layers.{}", config.body(), index)),
        config_(config),
        family_(config.row()),
        angles_(config.rotates(index) ? std::move(angles) : nullptr),
        index_(index),
        type_(config.layer_type(index)),
        heads_(config.num_attention_heads),
        key_heads_(config.num_key_heads(type_)),
        width_(config.head_width(type_)),
        window_(config.window_of(index)),
        cap_(config.attn_logit_softcapping.value_or(0)),
        lends_(config.lends_keys(index)),
        borrows_(config.keys_of(index) != index) {
    const int64_t D = config.hidden_size;
    const bool is_delta = type_ == LayerType::Linear;
    const auto place = is_delta ? NormPlace::Before : family_.norms;
    const bool renamed = is_delta && family_.delta == DeltaLayers::Apart;
    const char* first = renamed ? "attention_layer_norm.weight" : "input_layernorm.weight";
    if (place != NormPlace::After) before_attention_ = norm(first, D);
    if (is_delta) {
      angles_ = nullptr;
      delta_.emplace(config_, name(), [this](auto spec) { return declare(std::move(spec)); });
    } else {
      declare_attention();
    }
    const char* second =
        renamed ? "feedforward_layer_norm.weight" : "post_attention_layernorm.weight";
    if (place == NormPlace::Before) {
      before_feed_ = norm(second, D);
    } else {
      after_attention_ = norm(second, D);
    }
    if (place == NormPlace::Around) before_feed_ = norm("pre_feedforward_layernorm.weight", D);
    if (place != NormPlace::Before) after_feed_ = norm("post_feedforward_layernorm.weight", D);
    if (config.has_experts(index)) {
      experts_.emplace(config, [this](const std::string& leaf, auto shape, const auto& cut) {
        const auto full = fmt::format("{}.{}", this->name(), leaf);
        if (leaf.ends_with("bias")) {
          return declare({.name = full, .shape = shape, .decay = false, .cut = cut});
        }
        return declare_matrix(full, shape, Init::normal(config_.initializer_range), cut);
      });
    } else {
      declare_feed_forward();
    }
    if (config.layer_input_width() > 0) declare_input();
    if (!family_.layer_scalars) return;
    nn::ParamSpec scalar{name() + ".layer_scalar", {1}, Init::ones()};
    scalar.decay = scalar.trainable = false;
    scalar_ = declare(std::move(scalar));
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto ranks = ranks_of(in, context);
    auto out = in;
    const auto first = with_norm(in.at("hidden"), before_attention_);
    const auto branch = delta_ ? delta_->forward(first.rows, in, ranks, context)
                               : attention(first.rows, in, ranks, context, out);
    const auto second = attended(first.states, branch, ranks, context);
    auto x = added(second.states, feed_forward(second.rows, ranks, context, out), after_feed_,
                   kAfterFeedForward, ranks, context);
    if (input_gate_.weight) {
      x = added(x, of_input(x, in.at(kLayerInputs)), after_input_, kAfterInput, ranks, context);
    }
    if (scalar_) x = x * scalar_->value().to(x.scalar_type());
    out["hidden"] = x;
    return out;
  }

  nn::Bundle serve(const nn::Context& context) override {
    if (!experts_ || context.experts.size() == 1) return {};
    return {{"hidden", experts_->serve(context)}};
  }

  // Keys go round in whole shares, and their scores are not bounded. Experts are balanced over
  // whole rows.
  bool takes_context_ranks() const override {
    return window_ == 0 && cap_ == 0 && !sinks_ && !delta_ && !lends_ && !borrows_ &&
           config_.balancing() == 0;
  }
  int64_t experts_per_token() const override { return experts_ ? config_.num_experts_per_tok : 0; }
  std::string cost_key() const override {
    return fmt::format(
        "{} heads {} {} {} window {} cap {} rotates {} experts {} delta {} keys {} of {}", heads_,
        config_.hidden_act, config_.attention_dropout, config_.resid_pdrop, window_, cap_,
        angles_ != nullptr, experts_ ? config_.num_experts_per_tok : 0,
        delta_ ? config_.delta_heads().keys : 0, key_heads_,
        borrows_ ? "another layer"
        : lends_ ? "several layers"
                 : "its own");
  }

 private:
  void declare_attention() {
    const int64_t D = config_.hidden_size, H = heads_ * width_, K = key_heads_ * width_;
    const bool biased = family_.biased_queries || config_.attention_bias || config_.qkv_bias;
    const parallel::TensorCut by_readers{0, {}, width_, heads_ / key_heads_};
    if (family_.fused) {
      parallel::TensorCut cut{0, {H, K, K}, width_};
      cut.part_readers = {1, heads_ / key_heads_, heads_ / key_heads_};
      query_ = dense("self_attn.qkv_proj", D, H + 2 * K, biased, cut);
    } else {
      const int64_t of_query = family_.gates_attention ? 2 : 1;  // with its gate
      query_ = dense("self_attn.q_proj", D, of_query * H, biased, {0, {}, of_query * width_});
      if (!borrows_) key_ = dense("self_attn.k_proj", D, K, biased, by_readers);
      if (!borrows_ && !config_.keys_are_values(type_)) {
        value_ = dense("self_attn.v_proj", D, K, biased, by_readers);
      }
    }
    mixed_ = dense("self_attn.o_proj", H, D, config_.attention_bias, {1, {}, width_});
    if (family_.sinks) {
      sinks_ = declare({.name = name() + ".self_attn.sinks",
                        .shape = {heads_},
                        .init = Init::normal(config_.initializer_range),
                        .cut = {0}});
    }
    if (family_.query_norm == QueryNorm::None) return;
    // A rank turns its own heads back, so what it knows of the gradient is a part.
    const bool by_head = family_.query_norm == QueryNorm::ByHead;
    const parallel::TensorCut in_parts{.partial_grad = true};
    query_norm_ = by_head ? norm("self_attn.q_norm.weight", width_, in_parts)
                          : norm("self_attn.q_norm.weight", H, {0, {}, width_});
    if (borrows_) return;
    key_norm_ = by_head ? norm("self_attn.k_norm.weight", width_, in_parts)
                        : norm("self_attn.k_norm.weight", K, by_readers);
  }

  void declare_feed_forward() {
    const int64_t D = config_.hidden_size, F = config_.feed_forward_width(index_);
    if (family_.fused) {
      gate_ = dense("mlp.gate_up_proj", D, 2 * F, config_.mlp_bias, {0, {F, F}});
    } else {
      gate_ = dense("mlp.gate_proj", D, F, config_.mlp_bias, {0});
      up_ = dense("mlp.up_proj", D, F, config_.mlp_bias, {0});
    }
    down_ = dense("mlp.down_proj", F, D, config_.mlp_bias, {1});
  }

  void declare_input() {
    const int64_t D = config_.hidden_size, P = config_.layer_input_width();
    input_gate_ = dense("per_layer_input_gate", D, P, false, {});
    input_out_ = dense("per_layer_projection", P, D, false, {});
    after_input_ = norm("post_per_layer_input_norm.weight", D);
  }

  /// Branch that reads this layer's part of the inputs [..., L x P].
  at::Tensor of_input(const at::Tensor& x, const at::Tensor& inputs) const {
    const auto gate = nn::linear(x, input_gate_);
    const int64_t P = gate.size(-1);
    const auto own = inputs.narrow(-1, index_ * P, P).to(gate.scalar_type());
    return nn::linear(nn::activate(config_.hidden_act, gate, own), input_out_);
  }

  /// Output of a branch, normalised and scaled where the family does that.
  at::Tensor changed(const at::Tensor& branch, const ParamPtr& after) const {
    const auto out = after ? normed(branch, after, nn::ReadBy::Anything) : branch;
    return config_.residual_multiplier != 1 ? out * config_.residual_multiplier : out;
  }

  /// Returns x plus a branch's output, changed(), and dropped where the family does that.
  at::Tensor added(const at::Tensor& x, const at::Tensor& branch, const ParamPtr& after,
                   int64_t site, const nn::TensorRanks& ranks, const nn::Context& context) const {
    const auto more = changed(branch, after);
    if (config_.resid_pdrop == 0) return x + more;
    return nn::add_dropped(x, more, config_.resid_pdrop, context, site, ranks);
  }

  /// Returns x and its rows for products: normalised, where there is a weight.
  nn::NormedStates with_norm(const at::Tensor& x, const ParamPtr& weight) const {
    if (!weight) return {x, x};
    return nn::with_norm(x, row_norm(weight));
  }

  /// States behind the attention, and what the feed-forward reads.
  nn::NormedStates attended(const at::Tensor& x, const at::Tensor& branch,
                            const nn::TensorRanks& ranks, const nn::Context& context) const {
    if (!before_feed_) {
      return with_norm(added(x, branch, after_attention_, kAfterAttention, ranks, context),
                       nullptr);
    }
    return nn::add_dropped_norm(x, changed(branch, after_attention_), row_norm(before_feed_),
                                config_.resid_pdrop, context, kAfterAttention, ranks);
  }

  nn::RowNorm row_norm(const ParamPtr& weight) const {
    return {{weight, nullptr},
            config_.rms_norm_eps,
            nn::ReadBy::Products,
            family_.one_more ? nn::RmsFactor::OneMore : nn::RmsFactor::Weight};
  }

  at::Tensor normed(const at::Tensor& x, const ParamPtr& weight, nn::ReadBy reader) const {
    if (!weight) return x;
    return nn::rms_norm(x, weight, config_.rms_norm_eps, reader,
                        family_.one_more ? nn::RmsFactor::OneMore : nn::RmsFactor::Weight);
  }

  /// Projections of queries, and of keys and values where the layer has its own, [B, T, heads here
  /// x E] each.
  std::vector<at::Tensor> projections(const nn::Operand& read, const HeadsHere& here,
                                      const nn::TensorRanks& ranks) const {
    if (borrows_) return {nn::linear(read, query_, ranks)};
    if (!value_.weight && !family_.fused) {
      auto out = nn::linears(read, {query_, key_}, ranks);
      out.push_back(out[1]);
      return out;
    }
    if (!family_.fused) return nn::linears(read, {query_, key_, value_}, ranks);
    const auto all = nn::linear(read, query_, ranks);
    return all.split_with_sizes({here.queries * width_, here.keys * width_, here.keys * width_},
                                -1);
  }

  at::Tensor attention(const at::Tensor& x, const nn::Bundle& in, const nn::TensorRanks& ranks,
                       const nn::Context& context, nn::Bundle& out) const {
    const auto read = nn::to_columns(x, query_.weight, ranks);
    const int64_t B = read.value.size(0), T = read.value.size(1);
    const auto here =
        HeadsHere::of(heads_, key_heads_, {context.tensor.rank(), context.tensor.size()});
    auto heads = projections(read, here, ranks);
    const auto gate = family_.gates_attention ? gate_behind(heads[0]) : at::Tensor();
    const auto by_head = [&](at::Tensor& t) { t = t.view({B, T, t.size(2) / width_, width_}); };
    if (family_.query_norm == QueryNorm::OverProjection) norm_projections(heads, ranks);
    if (const auto bound = config_.clip_qkv) {
      for (auto& t : heads) t = t.clamp(-*bound, *bound);
    }
    for (auto& t : heads) by_head(t);
    if (family_.query_norm == QueryNorm::ByHead) norm_heads(heads);
    for (auto& t : heads) t = t.transpose(1, 2);
    const auto& positions = ranks.positions();
    const int64_t length = positions.shares() ? positions.length() : T;  // of a row
    std::vector<at::Tensor> turned{heads.begin(), heads.begin() + (borrows_ ? 1 : 2)};
    turned = rotated(turned, context.batch(in), length, positions);
    nn::AttentionOptions options;
    options.dropout = config_.attention_dropout;
    options.max_length = std::max(config_.max_position_embeddings, length);
    options.ranks = positions;
    options.name = name() + ".self_attn";
    options.scale = config_.score_scale();
    options.window = window_;
    options.cap = cap_;
    if (sinks_) options.sinks = nn::as_tensor(sinks_);
    if (auto mask = in.find("key_mask"); mask != in.end()) options.key_mask = mask->second;
    options.documents = nn::documents_of(context.batch(in));
    options.first_head = here.first_query;
    options.kept = lends_ || borrows_;
    nn::KvCache::Seen seen;
    if (borrows_) {
      seen = {in.at(lent("keys", type_)), in.at(lent("values", type_))};
    } else {
      const auto keys = here.keys_read_on(x.device());
      seen = {for_readers(turned[1], keys), for_readers(heads[2], keys)};
    }
    if (lends_) seen = lend(seen, context, out);
    auto mixed = nn::attention(turned[0], seen.keys, seen.values, options, context);
    mixed = mixed.transpose(1, 2).reshape({B, T, mixed_.weight->shape()[1]});
    return nn::linear(gate.defined() ? mixed * gate.sigmoid() : mixed, mixed_, ranks);
  }

  /// Puts keys and values into `out` for later layers: with a cache, those of all positions so far.
  nn::KvCache::Seen lend(nn::KvCache::Seen seen, const nn::Context& context,
                         nn::Bundle& out) const {
    if (context.cache != nullptr) {
      seen = context.cache->append(context.block, 0, seen.keys, seen.values, window_);
    }
    out[lent("keys", type_)] = seen.keys;
    out[lent("values", type_)] = seen.values;
    return seen;
  }

  /// Gates behind the queries of each head, both [B, T, heads here x E]; leaves the queries.
  at::Tensor gate_behind(at::Tensor& queries) const {
    const auto both = queries.unflatten(2, {-1, 2, width_}).unbind(3);
    queries = both[0].flatten(2);
    return both[1].flatten(2);
  }

  /// Normalises queries and keys [B, T, heads here x E] over the heads of all ranks.
  void norm_projections(std::vector<at::Tensor>& projections, const nn::TensorRanks& ranks) const {
    const auto dtype = projections[0].scalar_type();
    const auto normed = nn::rms_norms_of_columns(
        {projections[0], projections[1]}, {query_norm_, key_norm_}, config_.rms_norm_eps, ranks);
    for (size_t i = 0; i < normed.size(); ++i) projections[i] = normed[i].to(dtype);
  }

  /// Normalises queries and keys [B, T, heads here, E] by head, and values where the family does.
  void norm_heads(std::vector<at::Tensor>& heads) const {
    const auto dtype = heads[0].scalar_type();
    heads[0] = normed(heads[0], query_norm_, nn::ReadBy::Products).to(dtype);
    if (borrows_) return;
    heads[1] = normed(heads[1], key_norm_, nn::ReadBy::Products).to(dtype);
    if (!family_.norms_values) return;
    heads[2] =
        nn::rms_norm(heads[2], nullptr, config_.rms_norm_eps, nn::ReadBy::Products).to(dtype);
  }

  std::vector<at::Tensor> rotated(const std::vector<at::Tensor>& heads, const nn::Bundle& batch,
                                  int64_t length, const nn::ContextRanks& positions) const {
    if (angles_ == nullptr) return heads;
    const auto& tables = angles_->tables(batch, length, heads[0].device());
    const auto own = [&](const at::Tensor& t) { return positions.own(t, t.dim() - 2); };
    const int64_t turns = angles_->width();
    auto out = heads;
    if (turns < width_) {
      for (auto& t : out) t = t.narrow(3, 0, turns);
    }
    out = nn::rotate_all(out, own(tables.cos), own(tables.sin));
    if (turns < width_) {
      const auto rest = [&](size_t i) { return heads[i].narrow(3, turns, width_ - turns); };
      for (size_t i = 0; i < out.size(); ++i) out[i] = at::cat({out[i], rest(i)}, 3);
    }
    const auto& factors = angles_->query_factors();
    if (factors.defined()) out[0] = out[0] * own(factors).to(out[0].scalar_type());
    return out;
  }

  static at::Tensor for_readers(const at::Tensor& keys, const at::Tensor& read) {
    return read.defined() ? keys.index_select(1, read) : keys;
  }

  at::Tensor feed_forward(const at::Tensor& states, const nn::TensorRanks& ranks,
                          const nn::Context& context, nn::Bundle& out) const {
    if (experts_) return experts_->forward(states, ranks, context, out);
    const auto read = nn::to_columns(states, gate_.weight, ranks);
    const auto inner = family_.fused ? nn::linear(read, gate_, ranks).chunk(2, -1)
                                     : nn::linears(read, {gate_, up_}, ranks);
    const auto active = nn::activate(config_.hidden_act, inner[0], inner[1]);
    const bool is_read = after_feed_ || input_gate_.weight || scalar_;
    return nn::linear(is_read ? active : nn::for_result(active, context), down_, ranks);
  }

  ParamPtr norm(const std::string& leaf, int64_t size, const parallel::TensorCut& cut = {}) {
    return declare_vector(name() + "." + leaf, size,
                          family_.one_more ? Init::zeros() : Init::ones(), cut);
  }

  nn::DenseParams dense(const std::string& leaf, int64_t in, int64_t out, bool biased,
                        const parallel::TensorCut& cut) {
    const auto full = name() + "." + leaf;
    const double deviation = config_.initializer_range;
    if (biased) return declare_dense(full, in, out, deviation, cut);
    return {declare_matrix(full + ".weight", {out, in}, Init::normal(deviation), cut), nullptr};
  }

  DecoderConfig config_;
  const DecoderFamily& family_;
  std::shared_ptr<RotaryAngles> angles_;  // null: this layer does not rotate
  int64_t index_;
  LayerType type_;
  int64_t heads_, key_heads_, width_, window_;
  double cap_;
  bool lends_, borrows_;  // keys and values: to later layers, from an earlier one
  ParamPtr before_attention_, after_attention_, before_feed_, after_feed_, query_norm_, key_norm_;
  ParamPtr sinks_;  // [heads]; null: none
  nn::DenseParams query_, key_, value_, mixed_, gate_, up_, down_;
  nn::DenseParams input_gate_, input_out_;  // of the layer's input; null: it has none
  ParamPtr after_input_, scalar_;
  std::optional<DecoderExperts> experts_;  // in place of the last three
  std::optional<DeltaMixer> delta_;        // none: the layer has attention
};

}  // namespace

nn::BlockPtr make_decoder_layer(const DecoderConfig& config, int64_t index,
                                std::shared_ptr<RotaryAngles> angles) {
  return std::make_shared<DecoderLayer>(config, index, std::move(angles));
}

}  // namespace convoy::models
