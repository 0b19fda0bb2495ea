#include "convoy/models/bert/bert_text.h"

#include <ATen/ATen.h>

#include "convoy/base/error.h"
#include "convoy/comm/device.h"
#include "convoy/models/padding_row.h"
#include "convoy/models/ranks_of.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/losses/cross_entropy.h"
#include "convoy/nn/losses/ranking.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

// Shapes: B rows, T positions, D = hidden_size, V vocabulary, L labels.
namespace convoy::models {

namespace {

using nn::Init;
using nn::ParamPtr;

/// Names of norms in the first BERTs, google-bert/bert-base-uncased among them.
const std::vector<std::pair<std::string, std::string>> kOldNorms{
    {"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}};

class BertInput : public nn::Block {
 public:
  BertInput(const BertTextConfig& config, bool hides)
      : Block("embeddings"), config_(config), hides_(hides) {
    const int64_t D = config.hidden_size;
    words_ = declare_table(
        "bert.embeddings.word_embeddings.weight", {config.vocab_size, D},
        Init::normal(config.initializer_range, padding_row(config.pad_token_id, config.vocab_size)),
        {0});
    positions_ = table("position_embeddings", config.max_position_embeddings, D);
    types_ = table("token_type_embeddings", config.type_vocab_size, D);
    norm_ = declare_norm("bert.embeddings.LayerNorm", D);
  }

  const ParamPtr& words() const { return words_; }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    auto ids = in.at("input_ids");
    const int64_t V = config_.vocab_size, T = ids.size(1);
    const auto& batch = context.batch(in);
    check_ids(batch.at("input_ids"), V, "input_ids");
    if (T > config_.max_position_embeddings) {
      fail<UsageError>("models",
                       "rows of {} ids; expected at most max_position_embeddings = {}; try a "
                       "shorter max_length or block_size",
                       T, config_.max_position_embeddings);
    }
    const auto ranks = ranks_of(ids, context);
    auto out = in;
    if (hides_) {
      const auto given = batch.find("labels");
      if (given != batch.end()) {
        check_ids(given->second, V, "labels", /*ignores=*/true);
        put_targets(out, ranks.positions().own(given->second), ids.device());
      } else if (context.mode != nn::Mode::Predict) {
        const auto masked = masking::mask_text(batch.at("input_ids"), config_.masking, V, context);
        ids = comm::upload(masked.ids, ids.device());
        put_targets(out, ranks.positions().own(masked.targets), ids.device());
      }
    }
    const auto types = in.find("token_type_ids");
    if (types != in.end()) {
      check_ids(batch.at("token_type_ids"), config_.type_vocab_size, "token_type_ids");
    }
    const auto padding = padding_row(config_.pad_token_id, V);
    const auto words = nn::embedding(ids, words_, padding == 0, ranks);
    auto x = (padding == 0 ? words : untrained_at(padding, ids, words, ranks)) +
             nn::embedding(types != in.end() ? types->second : at::zeros_like(ids), types_, false,
                           ranks);
    x = nn::layer_norm(nn::add_positions(x, positions_, ranks), norm_, config_.layer_norm_eps);
    out["hidden"] = nn::dropout(x, config_.hidden_dropout_prob, context, 0, ranks);
    return out;
  }

  bool takes_tensor_ranks() const override { return true; }
  bool takes_sequence_parallel() const override { return true; }
  bool takes_context_ranks() const override { return hides_; }

 private:
  ParamPtr table(const char* leaf, int64_t rows, int64_t width) {
    return declare_table(fmt::format("bert.embeddings.{}.weight", leaf), {rows, width},
                         Init::normal(config_.initializer_range));
  }

  BertTextConfig config_;
  bool hides_;
  ParamPtr words_, positions_, types_;
  nn::NormParams norm_;
};

/// Masked language modelling head: predicts hidden tokens.
class MaskedHead : public nn::Block {
 public:
  MaskedHead(const BertTextConfig& config, const ParamPtr& words) : Block("cls"), config_(config) {
    const std::string name = "cls.predictions.";
    const int64_t D = config.hidden_size;
    transform_ = declare_dense(name + "transform.dense", D, D, config.initializer_range);
    norm_ = declare_norm(name + "transform.LayerNorm", D);
    table_ = config.tie_word_embeddings
                 ? tie(words)
                 : declare_matrix(name + "decoder.weight", words->spec().shape,
                                  Init::normal(config.initializer_range), {0});
    const auto declare_bias = [&](const char* leaf) {
      return declare_vector(name + leaf, config.vocab_size, Init::zeros(), {0});
    };
    if (config.tie_word_embeddings) {
      bias_ = declare_bias("bias");
      return;
    }
    // Hugging Face's untied model has two, and adds the decoder's. The other one is kept as it is.
    bias_ = declare_bias("decoder.bias");
    auto unused = nn::ParamSpec{name + "bias", {config.vocab_size}, Init::zeros(), /*decay=*/false};
    unused.trainable = false;
    unused.cut = {0};
    declare(std::move(unused));
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto& x = in.at("hidden");
    if (context.mode == nn::Mode::Predict) {
      const auto rows = x.reshape({-1, x.size(-1)});
      auto scores = nn::tied_scores(states(rows), table_, 1, 0).add_(bias_->value());
      scores = nn::gather_columns(scores, table_, 0, context.tensor);
      return {{"logits", scores.view({x.size(0), x.size(1), -1})}};
    }
    const auto& targets = in.at("targets");
    nn::CrossEntropyOptions options{.first_id = 0};
    const auto ranks = ranks_of(in, context);
    options.bias = bias_;
    options.ranks = among_asked(ranks, in.at("asked"), [&] {
      const auto& batch = context.batch(in);
      const auto given = batch.find("labels");
      if (given != batch.end()) return given->second;
      return masking::mask_text(batch.at("input_ids"), config_.masking, config_.vocab_size, context)
          .targets;
    });
    options.count_correct = context.mode == nn::Mode::Evaluate;
    const auto asked = ranks.select(x, in.at("asked"), options.ranks);
    const auto entropy = nn::cross_entropy(states(asked), table_, targets, options);
    nn::Bundle out{{"loss", entropy.loss},
                   {"count", at::scalar_tensor(targets.numel(), at::kLong)}};
    if (options.count_correct) out["correct"] = entropy.correct;
    return out;
  }

  bool takes_tensor_ranks() const override { return true; }
  bool takes_sequence_parallel() const override { return true; }
  bool takes_context_ranks() const override { return true; }

 private:
  at::Tensor states(const at::Tensor& rows) const {
    auto h = nn::activate(config_.hidden_act, nn::linear(rows, transform_));
    return nn::layer_norm(h, norm_, config_.layer_norm_eps);
  }

  BertTextConfig config_;
  nn::DenseParams transform_;
  nn::NormParams norm_;
  ParamPtr table_, bias_;
};

/// Sequence classification head: classifies texts by the state of their first token.
class Classifier : public nn::Block {
 public:
  Classifier(const BertTextConfig& config, int64_t num_labels)
      : Block("classifier"),
        dropout_(config.classifier_dropout.value_or(config.hidden_dropout_prob)),
        num_labels_(num_labels) {
    const int64_t D = config.hidden_size;
    pooler_ = declare_dense("bert.pooler.dense", D, D, config.initializer_range);
    classifier_ = declare_dense("classifier", D, num_labels, config.initializer_range);
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto ranks = ranks_of(in, context).among_first();
    const auto& x = in.at("hidden");  // of the first tokens
    auto pooled = at::tanh(nn::linear(ranks.shares() ? x : x.select(1, 0), pooler_, ranks));
    pooled = nn::dropout(pooled, dropout_, context, 0, ranks);
    const auto logits =
        ranks.whole(nn::linear(pooled, classifier_).to(at::kFloat), "logits of classifier");
    if (context.mode == nn::Mode::Predict) return {{"logits", logits}};
    const auto& labels = in.at("labels");
    check_ids(context.batch(in).at("labels"), num_labels_, "labels");
    nn::Bundle out{{"loss", at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum)},
                   {"count", at::scalar_tensor(labels.numel(), at::kLong)}};
    if (context.mode == nn::Mode::Evaluate) out["correct"] = (logits.argmax(1) == labels).sum();
    return out;
  }

  bool takes_tensor_ranks() const override { return true; }
  bool takes_sequence_parallel() const override { return true; }

 private:
  double dropout_;
  int64_t num_labels_;
  nn::DenseParams pooler_, classifier_;
};

}  // namespace

Fields BertTextConfig::fields() {
  return {
      {"vocab_size", &vocab_size, "size of the vocabulary", 1, kMostIds},
      {"hidden_size", &hidden_size, "width of the hidden states", 1, kWidest},
      {"num_hidden_layers", &num_hidden_layers, "layers", 0, kDeepest},
      {"num_attention_heads", &num_attention_heads, "attention heads", 1, kWidest},
      {"intermediate_size", &intermediate_size, "width of the feed-forward layers", 1, kWidest},
      {"hidden_act", &hidden_act, "activation of the feed-forward layers", 0, 0, nn::activations()},
      {"hidden_dropout_prob", &hidden_dropout_prob, "dropout on hidden states", 0, kMostDropped},
      {"attention_probs_dropout_prob", &attention_probs_dropout_prob,
       "dropout on attention probabilities", 0, kMostDropped},
      {"max_position_embeddings", &max_position_embeddings, "maximum sequence length", 1, kMostIds},
      {"type_vocab_size", &type_vocab_size, "token types: first text, second text", 1, kMostIds},
      {"initializer_range", &initializer_range, "standard deviation of initial weights", 0},
      {"layer_norm_eps", &layer_norm_eps, "epsilon of normalisation layers", 0},
      {"classifier_dropout", &classifier_dropout,
       "dropout before the classifier; none = hidden_dropout_prob", 0, kMostDropped},
      {"tie_word_embeddings", &tie_word_embeddings, "share the embedding with the output layer"},
      {"is_decoder", &is_decoder, "must be false: attention is bidirectional"},
      {"pad_token_id", &pad_token_id, "id of padding, whose embedding is not trained"},
      {"bos_token_id", &bos_token_id, "id that begins a text; kept for other tools"},
      {"eos_token_id", &eos_token_id, "id that ends a text; kept for other tools"},
  };
}

void BertTextConfig::check_together() const {
  if (is_decoder) {
    fail<UsageError>("models",
                     "is_decoder = true is not supported; expected false: BERT sees both "
                     "sides");
  }
  padding_row(pad_token_id, vocab_size);
  if (hidden_size % num_attention_heads == 0) return;
  fail<UsageError>("models", "hidden_size = {} does not divide into num_attention_heads = {}",
                   hidden_size, num_attention_heads);
}

nn::BlockList BertTextConfig::make_blocks() const {
  check();
  auto input = std::make_shared<BertInput>(*this, /*hides=*/true);
  nn::BlockList blocks{input};
  for (int64_t i = 0; i < num_hidden_layers; ++i) {
    blocks.push_back(make_bert_layer(*this, "bert", i));
  }
  blocks.push_back(std::make_shared<MaskedHead>(*this, input->words()));
  return blocks;
}

nn::Bundle BertTextConfig::labelled(const nn::Bundle& batch, const nn::Context& context) const {
  auto out = batch;
  if (out.contains("labels")) return out;
  const auto hidden = masking::mask_text(batch.at("input_ids"), masking, vocab_size, context);
  out["input_ids"] = hidden.ids;
  out["labels"] = hidden.targets;
  return out;
}

nn::BlockList BertTextConfig::make_classifier(int64_t num_labels) const {
  check();
  nn::BlockList blocks{std::make_shared<BertInput>(*this, /*hides=*/false)};
  for (int64_t i = 0; i < num_hidden_layers; ++i) {
    // The head reads the first position only, which sees all of the layer before.
    const bool last = i + 1 == num_hidden_layers;
    blocks.push_back(make_bert_layer(*this, "bert", i, last ? Gives::First : Gives::All));
  }
  blocks.push_back(std::make_shared<Classifier>(*this, num_labels));
  return blocks;
}

double BertTextConfig::training_flops(int64_t length, int64_t asked) const {
  const auto reads = static_cast<double>(length);
  return flops_of([&](const auto&, const auto&,
                      bool head) { return head ? static_cast<double>(asked) : reads; },
                  static_cast<double>(num_hidden_layers * attention_width()) * reads * reads);
}

WeightLayout BertTextConfig::layout() const {
  WeightLayout out{"bert.",
                   {"embeddings.position_ids"},
                   "cls.predictions.decoder.weight",
                   tie_word_embeddings ? "bert.embeddings.word_embeddings.weight" : ""};
  out.may_lack = {"cls.predictions."};
  out.unused = {"pooler.", "bert.pooler.", "cls.seq_relationship.", "classifier.", "qa_outputs."};
  out.old_ends = kOldNorms;
  const std::string bias = "cls.predictions.bias", decoder = "cls.predictions.decoder.bias";
  if (tie_word_embeddings) {
    out.aliases = {{decoder, bias, /*counts=*/true}};
  } else {
    out.aliases = {{bias, decoder}};
  }
  return out;
}

WeightLayout BertTextConfig::classifier_layout(bool has_other_head) const {
  WeightLayout out{"bert.", {"embeddings.position_ids"}, "", ""};
  out.may_lack = {"classifier.", "bert.pooler."};
  out.unused = {"cls.", "qa_outputs."};
  out.old_ends = kOldNorms;
  if (has_other_head) out.of_other_heads = {"classifier."};
  return out;
}

}  // namespace convoy::models
