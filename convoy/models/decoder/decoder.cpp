#include "convoy/models/decoder/decoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"
#include "convoy/models/causal_head.h"
#include "convoy/models/padding_row.h"
#include "convoy/models/ranks_of.h"
#include "convoy/nn/activation.h"
#include "convoy/nn/attention/attention.h"
#include "convoy/nn/device_kernel.h"
#include "convoy/nn/layers.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

// Shapes: B rows, T positions, D = hidden_size, F = intermediate_size, H heads, K heads of keys,
// E width of a head, V vocabulary.
namespace convoy::models {

namespace {

using nn::Init;
using nn::ParamPtr;

/// The angles by which a model's layers turn queries and keys. Each process computes its own, so
/// that they need not travel from stage to stage.
class Rotary {
 public:
  explicit Rotary(const DecoderConfig& config)
      : options_(config.rotary()),
        width_(config.head_width()),
        by_row_(options_.type == "dynamic") {}

  /// Tables for the batch's positions, else for all up to `length`, which steps share.
  const nn::RotaryTables& tables(const nn::Bundle& batch, int64_t length, at::Device device) {
    const auto given = [&](const char* name) {
      const auto found = batch.find(name);
      return found == batch.end() ? at::Tensor() : found->second;
    };
    const auto positions = given("positions");
    const auto mask = by_row_ ? given("key_mask") : at::Tensor();
    const bool same = positions.is_same(positions_) && mask.is_same(mask_) &&
                      tables_.cos.defined() && tables_.cos.device() == device &&
                      (positions.defined() || tables_.cos.size(-2) == length);
    if (same) return tables_;
    positions_ = positions;
    mask_ = mask;
    if (!positions.defined() && !mask.defined()) {
      tables_ = nn::rotary_tables(options_, length, width_, device);
      return tables_;
    }
    const auto places =
        positions.defined()
            ? positions
            : at::arange(length, mask.options().dtype(at::kLong)).expand({mask.size(0), length});
    const auto tables =
        by_row_ ? of_rows(places, mask) : nn::rotary_tables(options_, places, length, width_);
    tables_ = {comm::upload(tables.cos.unsqueeze(1), device),
               comm::upload(tables.sin.unsqueeze(1), device)};
    return tables_;
  }

 private:
  /// Tables of each row [B, T] by its own length, which stretches all of its angles: neither the
  /// other rows nor padding may.
  nn::RotaryTables of_rows(const at::Tensor& positions, const at::Tensor& mask) const {
    auto real = comm::download(positions);
    if (mask.defined()) {  // of what a cache holds, too
      const int64_t T = positions.size(1);
      const auto here = comm::download(mask).narrow(1, mask.size(1) - T, T);
      real = real.masked_fill(here.logical_not(), 0);
    }
    const auto lengths = (real.amax(1) + 1).contiguous();
    if (lengths.numel() == 0 || comm::item<int64_t>(lengths.max()) <= options_.max_length) {
      return nn::rotary_tables(options_, positions, options_.max_length, width_);
    }
    std::vector<at::Tensor> cos, sin;
    for (int64_t row = 0; row < lengths.size(0); ++row) {
      const auto length = lengths.const_data_ptr<int64_t>()[row];
      const auto tables = nn::rotary_tables(options_, positions[row], length, width_);
      cos.push_back(tables.cos);
      sin.push_back(tables.sin);
    }
    return {at::stack(cos), at::stack(sin)};
  }

  nn::RotaryOptions options_;
  int64_t width_;
  bool by_row_;           // a row's length changes its angles
  at::Tensor positions_;  // that tables_ are of; undefined: all up to a length
  at::Tensor mask_;
  nn::RotaryTables tables_;
};

class DecoderInput : public nn::Block {
 public:
  explicit DecoderInput(const DecoderConfig& config) : Block("embeddings") {
    table_ = declare_table("model.embed_tokens.weight", {config.vocab_size, config.hidden_size},
                           Init::normal(config.initializer_range), {0});
    padding_ = config.padding_row();
  }

  const ParamPtr& table() const { return table_; }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto& ids = in.at("input_ids");
    const int64_t V = table_->spec().shape[0];
    const auto& batch = context.batch(in);
    check_ids(batch.at("input_ids"), V, "input_ids");
    auto out = in;
    const auto ranks = ranks_of(ids, context);
    out["hidden"] = untrained_at(padding_, ids, nn::embedding(ids, table_, false, ranks), ranks);
    if (context.mode != nn::Mode::Predict) {
      put_targets(out, ranks.positions().own(causal_targets(batch, V)), ids.device());
    }
    return out;
  }

  bool takes_tensor_ranks() const override { return true; }
  bool takes_sequence_parallel() const override { return true; }
  bool takes_context_ranks() const override { return true; }

 private:
  ParamPtr table_;
  std::optional<int64_t> padding_;  // the row that no token trains
};

/// Which of `keys` heads of keys, from the layer's head `first_key` on, each of `queries` heads of
/// queries reads, from head `first` on; empty where each serves as many as the others, one after
/// the other.
std::vector<int64_t> uneven_reads(int64_t first, int64_t queries, int64_t first_key, int64_t keys,
                                  int64_t readers) {
  std::vector<int64_t> read;
  bool even = queries % keys == 0;
  for (int64_t query = 0; query < queries; ++query) {
    read.push_back((first + query) / readers - first_key);
    even = even && read.back() == query / (queries / keys);
  }
  if (even) read.clear();
  return read;
}

class DecoderLayer : public nn::Block {
 public:
  DecoderLayer(const DecoderConfig& config, int64_t index, std::shared_ptr<Rotary> rotary)
      : Block(fmt::format("model.layers.{}", index)),
        rotary_(std::move(rotary)),
        heads_(config.num_attention_heads),
        key_heads_(config.num_key_heads()),
        width_(config.head_width()),
        max_length_(config.max_position_embeddings),
        epsilon_(config.rms_norm_eps),
        dropout_(config.attention_dropout),
        activation_(config.hidden_act),
        deviation_(config.initializer_range) {
    const int64_t D = config.hidden_size, F = config.intermediate_size;
    const bool biased = config.attention_bias;
    attention_norm_ = norm("input_layernorm.weight", D);
    query_ = dense("self_attn.q_proj", D, heads_ * width_, biased, {0, {}, width_});
    const schedule::TensorCut by_readers{0, {}, width_, heads_ / key_heads_};
    key_ = dense("self_attn.k_proj", D, key_heads_ * width_, biased, by_readers);
    value_ = dense("self_attn.v_proj", D, key_heads_ * width_, biased, by_readers);
    mixed_ = dense("self_attn.o_proj", heads_ * width_, D, biased, {1, {}, width_});
    feed_norm_ = norm("post_attention_layernorm.weight", D);
    gate_ = dense("mlp.gate_proj", D, F, config.mlp_bias, {0});
    up_ = dense("mlp.up_proj", D, F, config.mlp_bias, {0});
    down_ = dense("mlp.down_proj", F, D, config.mlp_bias, {1});
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto ranks = ranks_of(in, context);
    auto x = in.at("hidden");
    x = x + attention(in, ranks, context);
    x = x + feed_forward(x, ranks);
    auto out = in;
    out["hidden"] = x;
    return out;
  }

  bool takes_tensor_ranks() const override { return true; }
  bool takes_sequence_parallel() const override { return true; }
  bool takes_context_ranks() const override { return true; }
  std::string likeness() const override {
    return fmt::format("{} heads {} {}", heads_, activation_, dropout_);
  }

 private:
  at::Tensor attention(const nn::Bundle& in, const nn::TensorRanks& ranks,
                       const nn::Context& context) const {
    const auto& x = in.at("hidden");
    const auto normed = nn::rms_norm(x, attention_norm_, epsilon_, nn::ReadBy::Products);
    const auto read = nn::to_columns(normed, query_.weight, ranks);
    const int64_t B = read.value.size(0), T = read.value.size(1);
    auto heads = nn::linears(read, {query_, key_, value_}, ranks);
    for (auto& t : heads) t = t.view({B, T, t.size(2) / width_, width_}).transpose(1, 2);
    const auto& positions = ranks.positions();
    const int64_t length = positions.shares() ? positions.length() : T;  // of a row
    const auto& tables = rotary_->tables(context.batch(in), length, x.device());
    const auto cos = positions.own(tables.cos, tables.cos.dim() - 2);
    const auto sin = positions.own(tables.sin, tables.sin.dim() - 2);
    const auto turned = nn::rotate_all({heads[0], heads[1]}, cos, sin);
    nn::AttentionOptions options;
    options.dropout = dropout_;
    options.max_length = std::max(max_length_, length);
    options.ranks = positions;
    options.name = name() + ".self_attn";
    if (auto mask = in.find("key_mask"); mask != in.end()) options.key_mask = mask->second;
    options.first_head = query_.weight->begin() / width_;
    const auto keys = keys_read(x.device());
    auto mixed = nn::attention(turned[0], for_readers(turned[1], keys), for_readers(heads[2], keys),
                               options, context);
    return nn::linear(mixed.transpose(1, 2).reshape({B, T, mixed_.weight->shape()[1]}), mixed_,
                      ranks);
  }

  /// Which of the key heads that are here each query head reads, [H]; undefined where each serves
  /// as many as the others, one after the other.
  at::Tensor keys_read(at::Device device) const {
    const auto read = uneven_reads(
        query_.weight->begin() / width_, query_.weight->shape()[0] / width_,
        key_.weight->begin() / width_, key_.weight->shape()[0] / width_, heads_ / key_heads_);
    if (read.empty()) return {};
    if (device.is_cpu()) return at::tensor(read, at::kLong);
    std::vector<int64_t> key{static_cast<int64_t>(nn::Kept::KeysRead)};
    key.insert(key.end(), read.begin(), read.end());
    return nn::kept_on(device, std::move(key), [&] { return at::tensor(read, at::kLong); });
  }

  static at::Tensor for_readers(const at::Tensor& keys, const at::Tensor& read) {
    return read.defined() ? keys.index_select(1, read) : keys;
  }

  at::Tensor feed_forward(const at::Tensor& x, const nn::TensorRanks& ranks) const {
    const auto normed = nn::rms_norm(x, feed_norm_, epsilon_, nn::ReadBy::Products);
    const auto inner =
        nn::linears(nn::to_columns(normed, gate_.weight, ranks), {gate_, up_}, ranks);
    return nn::linear(nn::activate(activation_, inner[0], inner[1]), down_, ranks);
  }

  ParamPtr norm(const char* leaf, int64_t size) {
    return declare_vector(name() + "." + leaf, size, Init::ones());
  }

  nn::DenseParams dense(const std::string& leaf, int64_t in, int64_t out, bool biased,
                        const schedule::TensorCut& cut) {
    const auto full = name() + "." + leaf;
    if (biased) return declare_dense(full, in, out, deviation_, cut);
    return {declare_matrix(full + ".weight", {out, in}, Init::normal(deviation_), cut), nullptr};
  }

  std::shared_ptr<Rotary> rotary_;
  int64_t heads_, key_heads_, width_, max_length_;
  double epsilon_, dropout_;
  std::string activation_;
  double deviation_;
  ParamPtr attention_norm_, feed_norm_;
  nn::DenseParams query_, key_, value_, mixed_, gate_, up_, down_;
};

}  // namespace

// Where heads of keys are read unevenly, attention is given one for each head of queries.
int64_t DecoderConfig::key_width_on(const schedule::TensorPlace& place) const {
  const int64_t heads = num_attention_heads, key_heads = num_key_heads();
  const auto here = [&](int64_t number, int64_t readers) {
    return schedule::boxes({number}, {.dim = 0, .readers = readers}, place);
  };
  const auto queries = here(heads, 1), keys = here(key_heads, heads / key_heads);
  const int64_t num_queries = queries[0].size[0];
  const int64_t num_keys = keys.back().local_begin[0] + keys.back().size[0];
  const auto read =
      uneven_reads(queries[0].begin[0], num_queries, keys[0].begin[0], num_keys, heads / key_heads);
  return (read.empty() ? num_keys : num_queries) * head_width();
}

nn::BlockList DecoderConfig::make_blocks() const {
  check();
  auto input = std::make_shared<DecoderInput>(*this);
  nn::BlockList blocks{input};
  const auto rotary = std::make_shared<Rotary>(*this);
  for (int64_t i = 0; i < num_hidden_layers; ++i) {
    blocks.push_back(std::make_shared<DecoderLayer>(*this, i, rotary));
  }
  blocks.push_back(make_causal_head({.norm = "model.norm",
                                     .norm_has_bias = false,
                                     .epsilon = rms_norm_eps,
                                     .table = input->table(),
                                     .tied = tie_word_embeddings,
                                     .initializer_range = initializer_range,
                                     .targets = causal_targets_of(vocab_size)}));
  return blocks;
}

WeightLayout DecoderConfig::layout() const {
  return {"model.",
          {".rotary_emb.inv_freq"},
          "lm_head.weight",
          tie_word_embeddings ? "model.embed_tokens.weight" : ""};
}

}  // namespace convoy::models
