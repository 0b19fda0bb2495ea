#include "convoy/models/t5/t5.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/json_number.h"
#include "convoy/base/text.h"
#include "convoy/comm/device.h"
#include "convoy/models/causal_head.h"
#include "convoy/models/ranks_of.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/layers.h"

// Shapes: B rows, S positions of the encoder, T of the decoder, D = d_model.
namespace convoy::models {

namespace {

/// Batch with the decoder's targets: for text alone, `labels` of corrupted spans.
nn::Bundle with_labels(nn::Bundle batch, const T5Config& config, const nn::Context& context) {
  if (batch.contains("labels") || batch.contains("decoder_input_ids")) return batch;
  check_ids(batch.at("input_ids"), config.vocab_size, "input_ids");
  const auto corrupted = masking::corrupt_spans(batch.at("input_ids"), config.corruption, context);
  batch["input_ids"] = corrupted.input_ids;
  batch["labels"] = corrupted.labels;
  return batch;
}

/// Inputs of encoder and decoder: `hidden` [B, S, D] and `decoder_hidden` [B, T, D].
class T5Input : public nn::Block {
 public:
  explicit T5Input(const T5Config& config) : Block("shared"), config_(config) {
    table_ = declare_table("shared.weight", {config.vocab_size, config.d_model},
                           nn::Init::normal(config.initializer_factor), {0});
  }

  const nn::ParamPtr& table() const { return table_; }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    auto out = in;
    const auto& given = context.batch(in);
    auto batch = with_labels(given, config_, context);
    const auto labels = batch.find("labels");
    if (labels != batch.end()) {
      check_ids(labels->second, config_.vocab_size, "labels", /*ignores=*/true);
    }
    if (!batch.contains("decoder_input_ids")) {
      batch["decoder_input_ids"] = shifted(batch.at("labels"));
    }
    for (const char* name : {"input_ids", "decoder_input_ids"}) {
      if (batch.contains(name)) check_ids(batch.at(name), config_.vocab_size, name);
    }
    const auto device = in.begin()->second.device();
    const auto embed = [&](const char* what, int64_t site) {
      const auto& ids = batch.at(what);
      const auto known = given.find(what);
      if (known == given.end() || !known->second.is_same(ids))
        out[what] = comm::upload(ids, device);
      const auto ranks = ranks_of(out.at(what), context);
      return nn::dropout(nn::embedding(out.at(what), table_, false, ranks), config_.dropout_rate,
                         context, site, ranks);
    };
    if (batch.contains("input_ids")) out["hidden"] = embed("input_ids", 0);
    out["decoder_hidden"] = embed("decoder_input_ids", 1);
    out.erase("labels");
    if (labels != batch.end()) put_targets(out, labels->second, device);
    return out;
  }

  bool takes_tensor_ranks() const override { return true; }
  bool takes_sequence_parallel() const override { return true; }

 private:
  /// Decoder inputs for `labels`: shifted right by one.
  at::Tensor shifted(const at::Tensor& labels) const {
    auto out = at::full_like(labels, config_.first_id());
    const int64_t last = labels.size(1) - 1;
    const auto pad = whole_number<int64_t>(config_.pad_token_id).value_or(config_.first_id());
    out.narrow(1, 1, last)
        .copy_(labels.narrow(1, 0, last).masked_fill(labels.narrow(1, 0, last) == kIgnored, pad));
    return out;
  }

  T5Config config_;
  nn::ParamPtr table_;
};

/// Final norm of encoder or decoder. After the encoder's the decoder's input becomes `hidden`.
class T5StackEnd : public nn::Block {
 public:
  T5StackEnd(const T5Config& config, const std::string& stack)
      : Block(stack + ".final_layer_norm"), config_(config), encodes_(stack == "encoder") {
    norm_ = declare_vector(name() + ".weight", config.d_model, nn::Init::ones());
    if (!encodes_ && config.scales_outputs()) {
      scale_ = 1 / std::sqrt(static_cast<double>(config.d_model));
    }
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    auto out = in;
    if (const auto hidden = in.find("hidden"); hidden != in.end()) {
      const auto ranks = ranks_of(in, context);
      auto x = nn::rms_norm(hidden->second, norm_, config_.layer_norm_epsilon);
      x = nn::dropout(x, config_.dropout_rate, context, 0, ranks);
      out["hidden"] = scale_ == 1 ? x : x * scale_;
      // The decoder is to know which tokens of the encoder's its ranks have.
      if (encodes_ && ranks.shares()) move(out, "input_ids", "encoder_input_ids");
    }
    if (!encodes_) return out;
    move(out, "hidden", "encoder_hidden");
    move(out, "decoder_hidden", "hidden");
    move(out, "key_mask", "encoder_mask");
    move(out, "decoder_input_ids", "input_ids");
    out.erase("position_bias");
    return out;
  }

  bool takes_tensor_ranks() const override { return true; }
  bool takes_sequence_parallel() const override { return true; }

 private:
  static void move(nn::Bundle& bundle, const char* from, const char* to) {
    auto node = bundle.extract(from);
    if (!node.empty()) bundle.insert_or_assign(to, node.mapped());
  }

  T5Config config_;
  bool encodes_;
  nn::ParamPtr norm_;
  double scale_ = 1;
};

std::vector<std::string> projections() {
  auto all = nn::activations();
  for (const auto& name : nn::activations()) all.push_back("gated-" + name);
  return all;
}

}  // namespace

Fields T5Config::fields() {
  return {
      {"vocab_size", &vocab_size, "size of the vocabulary", 1, kMostIds},
      {"d_model", &d_model, "width of the hidden states", 1, kWidest, {}, {"hidden_size"}},
      {"d_kv", &d_kv, "width of an attention head", 1, kWidest, {}, {"head_dim"}},
      {"d_ff", &d_ff, "width of the feed-forward layers", 1, kWidest},
      {"num_layers",
       &num_layers_of_encoder,
       "layers of the encoder",
       1,
       kDeepest,
       {},
       {"num_hidden_layers"}},
      {"num_decoder_layers", &num_decoder_layers, "layers of the decoder; none = num_layers", 1,
       kDeepest},
      {"num_heads", &num_heads, "attention heads", 1, kWidest, {}, {"num_attention_heads"}},
      {"relative_attention_num_buckets", &relative_attention_num_buckets,
       "buckets of relative positions", 4, kWidest},
      {"relative_attention_max_distance", &relative_attention_max_distance,
       "distances beyond this share one bucket", 1, kMostIds},
      {"dropout_rate", &dropout_rate, "dropout of all layers", 0, kMostDropped},
      {"layer_norm_epsilon", &layer_norm_epsilon, "epsilon of normalisation layers", 0},
      {"initializer_factor", &initializer_factor,
       "factor on the standard deviations of initial weights", 0},
      {"feed_forward_proj", &feed_forward_proj, "activation of the feed-forward layers", 0, 0,
       projections()},
      {"tie_word_embeddings", &tie_word_embeddings, "share the embedding with the output layer"},
      {"scale_decoder_outputs", &scale_decoder_outputs,
       "divide the output layer's input by the square root of d_model; none = tie_word_embeddings"},
      {"is_encoder_decoder", &is_encoder_decoder, "must be true"},
      {"classifier_dropout", &classifier_dropout, "kept for other tools"},
      {"dense_act_fn", &dense_act_fn, "follows from feed_forward_proj"},
      {"is_gated_act", &is_gated_act, "follows from feed_forward_proj"},
      {"pad_token_id", &pad_token_id, "id of padding"},
      {"eos_token_id", &eos_token_id, "id that ends a text"},
      {"bos_token_id", &bos_token_id, "id that begins a text; kept for other tools"},
      {"decoder_start_token_id", &decoder_start_token_id,
       "first input id of the decoder; none = pad_token_id"},
  };
}

int64_t T5Config::max_length() const {
  return static_cast<int64_t>(kMostIds);
}

std::string T5Config::activation() const {
  if (feed_forward_proj == "gated-gelu") return "gelu_new";  // so it has always been
  return gated() ? feed_forward_proj.substr(6) : feed_forward_proj;
}

bool T5Config::scales_outputs() const {
  return scale_decoder_outputs.is_boolean() ? scale_decoder_outputs.get<bool>()
                                            : tie_word_embeddings;
}

int64_t T5Config::first_id() const {
  for (const auto* id : {&decoder_start_token_id, &pad_token_id}) {
    if (const auto number = whole_number<int64_t>(*id)) return *number;
  }
  return 0;
}

void T5Config::check_together() const {
  const auto refuse = [](const char* key, const Json& value, const auto& expected) {
    fail<UsageError>("models", "{} = {} is not supported; expected {}", key, value.dump(),
                     expected);
  };
  if (!is_encoder_decoder) refuse("is_encoder_decoder", is_encoder_decoder, "true");
  if (!scale_decoder_outputs.is_null() && !scale_decoder_outputs.is_boolean()) {
    refuse("scale_decoder_outputs", scale_decoder_outputs, "true, false or none");
  }
  if (!dense_act_fn.is_null() && dense_act_fn != activation()) {
    refuse("dense_act_fn", dense_act_fn, activation() + ", which feed_forward_proj says");
  }
  if (!is_gated_act.is_null() && is_gated_act != gated()) {
    refuse("is_gated_act", is_gated_act, "what feed_forward_proj says");
  }
  const auto check_id = [&](const char* key, const Json& id) {
    if (id.is_null()) return;
    const auto number = whole_number<int64_t>(id);
    if (number && *number >= 0 && *number < vocab_size) return;
    refuse(key, id, fmt::format("0 to {}, for vocab_size is {}", vocab_size - 1, vocab_size));
  };
  check_id("pad_token_id", pad_token_id);
  check_id("decoder_start_token_id", decoder_start_token_id);
  const auto ends = eos_token_id.is_array() ? eos_token_id : Json::array({eos_token_id});
  for (const auto& id : ends) check_id("eos_token_id", id);
  if (relative_attention_max_distance <= relative_attention_num_buckets / 2) {
    fail<UsageError>("models",
                     "relative_attention_max_distance = {}; expected more than half of "
                     "relative_attention_num_buckets = {}",
                     relative_attention_max_distance, relative_attention_num_buckets);
  }
  if (static_cast<double>(num_heads) * static_cast<double>(d_kv) > kWidest) {
    fail<UsageError>("models", "{} heads of {}; expected at most {} in all", num_heads, d_kv,
                     kWidest);
  }
}

void T5Config::finish(Json& json) const {
  json["num_decoder_layers"] = num_layers_of_decoder();
  json["scale_decoder_outputs"] = scales_outputs();
  json["dense_act_fn"] = activation();
  json["is_gated_act"] = gated();
  json["decoder_start_token_id"] = first_id();
}

nn::BlockList T5Config::make_blocks() const {
  check();
  auto input = std::make_shared<T5Input>(*this);
  nn::BlockList blocks{input};
  for (int64_t i = 0; i < num_layers_of_encoder; ++i) {
    blocks.push_back(make_t5_layer(*this, "encoder", i));
  }
  blocks.push_back(std::make_shared<T5StackEnd>(*this, "encoder"));
  for (int64_t i = 0; i < num_layers_of_decoder(); ++i) {
    blocks.push_back(make_t5_layer(*this, "decoder", i));
  }
  blocks.push_back(std::make_shared<T5StackEnd>(*this, "decoder"));
  blocks.push_back(
      make_causal_head({.norm = "",
                        .table = input->table(),
                        .tied = tie_word_embeddings,
                        .initializer_range = initializer_factor,
                        .targets = [config = *this](const auto& batch, const auto& context) {
                          return with_labels(batch, config, context).at("labels");
                        }}));
  return blocks;
}

nn::Bundle T5Config::labelled(const nn::Bundle& batch, const nn::Context& context) const {
  return with_labels(batch, *this, context);
}

double T5Config::training_flops(int64_t length, int64_t asked) const {
  const auto reads = static_cast<double>(length), says = static_cast<double>(asked);
  const auto positions = [&](const nn::Block& block, const nn::ParamSpec& spec, bool) -> double {
    if (spec.name.ends_with("relative_attention_bias.weight")) return 0;  // is looked up
    // Keys and values of cross attention are made of what the encoder gives.
    const bool of_encoder = block.name().starts_with("encoder.block.") ||
                            spec.name.ends_with("EncDecAttention.k.weight") ||
                            spec.name.ends_with("EncDecAttention.v.weight");
    return of_encoder ? reads : says;
  };
  const auto encoding = static_cast<double>(num_layers_of_encoder);
  const auto decoding = static_cast<double>(num_layers_of_decoder());
  const double pairs = encoding * reads * reads + decoding * says * (says / 2 + reads);
  return flops_of(positions, pairs * static_cast<double>(attention_width()));
}

WeightLayout T5Config::layout() const {
  WeightLayout out{"",
                   {"EncDecAttention.relative_attention_bias.weight"},
                   "lm_head.weight",
                   tie_word_embeddings ? "shared.weight" : ""};
  for (const char* stack : {"encoder", "decoder"}) {
    out.aliases.push_back({fmt::format("{}.embed_tokens.weight", stack), "shared.weight"});
  }
  return out;
}

}  // namespace convoy::models
