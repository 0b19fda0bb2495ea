#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/models/session/session.h"
#include "convoy/models/session/session_bodies.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/losses/sampled_softmax.h"

namespace convoy::models {

namespace {

using Names = std::vector<std::string>;

const Names kJoins{"concat", "element-wise-sum", "element-wise-sum-item-multi"};
const Names kSummaries{"last", "first", "mean", "cls"};
// An error suggests the first one.
const std::pair<std::string, Names> kWithHidden{"model.body", bodies_that_learn_by("mlm")};
const std::pair<std::string, Names> kCausal{"model.body", bodies_that_learn_by("clm")};
const std::pair<std::string, Names> kWithDistances{
    "model.body",
    bodies_with([](const SessionBody& body) { return body.positions == BodyPositions::InLayers; })};
const std::pair<std::string, Names> kWithTimes{
    "model.body", bodies_with([](const SessionBody& body) { return body.reads_times; })};
const std::pair<std::string, Names> kWithSampling{"model.sampled_softmax", {"true"}};
const std::pair<std::string, Names> kWithPopularity{"model.negative_sampling", {"popularity"}};
const Names kNegatives = [] {
  auto out = nn::NegativeSampler::kinds();
  out.emplace_back(kInBatch);
  return out;
}();
const std::pair<std::string, Names> kWithOrder{"model.masking", {"plm"}};
const std::pair<std::string, Names> kWithReplaced{"model.masking", {"rtd"}};
const std::pair<std::string, Names> kWithOwnNegatives{"model.loss", losses_with_negatives()};
const std::pair<std::string, Names> kWithSoft{"model.soft_embeddings", {"true"}};

Names sorted(Names names) {
  std::ranges::sort(names);
  return names;
}

Names with_auto(Names names) {
  names.insert(names.begin(), "auto");
  return names;
}

std::string body_help() {
  Names causal, both_sides, either;
  for (const auto& name : bodies_that_learn_by("")) {
    const auto& learns = session_body(name).maskings;
    const bool clm = std::ranges::count(learns, "clm") > 0;
    (!clm ? both_sides : learns.size() == 1 ? causal : either).push_back(name);
  }
  return fmt::format("transformer layers: causal ({}), bidirectional ({}), or either ({})",
                     join(causal), join(both_sides), join(either));
}

/// Value of a body that says nothing else, and of each body that has another.
template <class T>
std::string value_of_bodies(T SessionBody::* value) {
  auto out = fmt::format("{}", SessionBody().*value);
  for (const auto& name : bodies_that_learn_by("")) {
    const auto& own = session_body(name).*value;
    if (own != SessionBody().*value) out += fmt::format(", for {} {}", name, own);
  }
  return out;
}

/// Initial deviation of bodies whose first weights depend on the width of the model.
std::string wide_help() {
  const auto names =
      bodies_with([](const SessionBody& body) { return body.learns_from_wide_weights; });
  return fmt::format("with convoy train of {} 0.02 * sqrt(768 / d_model)", join(names));
}

std::string loss_help() {
  std::string out = "next-item loss";
  for (const auto& loss : next_item_losses()) out += "; " + loss.name + ": " + loss.help;
  return out;
}

/// Fields of the options of single losses, bound to `values`.
Fields fields_of_losses(std::map<std::string, double>& values) {
  Fields out;
  for (const auto& loss : next_item_losses()) {
    for (const auto& option : loss.options) {
      out.push_back({.name = option.name,
                     .value = &values.at(option.name),
                     .help = option.help,
                     .low = option.low,
                     .high = option.high,
                     .only_with = {"model.loss", {loss.name}}});
    }
  }
  return out;
}

}  // namespace

Fields SessionConfig::fields() {
  const Names none;
  Fields out{
      {"d_model", &d_model, "hidden size of the body", 1, HUGE_VAL, {}, {"n_embd"}},
      {"n_layer", &n_layer, "layers of the body", 0},
      {"n_head", &n_head, "attention heads", 1},
      {"n_inner", &n_inner,
       "width of the feed-forward layers; 0 = d_model times " +
           value_of_bodies(&SessionBody::inner_factor),
       0},
      {"dropout", &dropout, "dropout rate on embeddings, attention and residuals", 0, kMostDropped},
      {"activation", &activation,
       "activation of the feed-forward layers; auto = " + value_of_bodies(&SessionBody::activation),
       0, 0, with_auto(nn::activations())},
      {"layer_norm_epsilon", &layer_norm_epsilon, "epsilon of normalisation layers", 0},
      {"initializer_range", &initializer_range,
       "standard deviation of initial weights; " + wide_help(), 0},
      {"item_embedding_dim", &item_embedding_dim, "width of the item embedding; 0 = d_model", 0},
      {"embedding_dim", &embedding_dim, "width of other embeddings; 0 = d_model", 0},
      {"embedding_dims", &embedding_dims,
       "widths of individual embeddings, as {\"COLUMN\": width}; overrides the two above. Vectors "
       "in the data are projected to it"},
      {"infer_embedding_sizes", &infer_embedding_sizes,
       "embeddings without a given width are 2 x ids^0.25 wide, rounded up"},
      {"aggregation", &aggregation, "how the vectors of features are combined into one input", 0, 0,
       kJoins},
      {"continuous_projection", &continuous_projection,
       "width that continuous features are projected to; 0 = d_model", 0},
      {"soft_embeddings", &soft_embeddings,
       "embed a continuous feature as a mixture of learned vectors instead"},
      {"soft_embedding_cardinality", &soft_embedding_cardinality,
       "number of these vectors per feature", 1, 1e6, none, none, "", kWithSoft},
      {"soft_embedding_dim", &soft_embedding_dim, "width of these vectors; 0 = d_model", 0, kWidest,
       none, none, "", kWithSoft},
      {"tabular_layer_norm", &tabular_layer_norm,
       "apply layer normalisation to each feature's vectors before aggregation"},
      {"stochastic_swap_noise", &stochastic_swap_noise,
       "fraction of each feature's values that training replaces with others from the column", 0,
       kMostDropped},
      {"input_dropout", &input_dropout, "dropout rate on each feature's vectors before aggregation",
       0, kMostDropped},
      {.name = "body",
       .value = &body,
       .help = body_help(),
       .choices = sorted(bodies_that_learn_by("")),
       .instead = {{"transfo-xl", "xlnet"},
                   {"transfoxl", "xlnet"},
                   {"longformer", "bert"},
                   {"reformer", "bert"},
                   {"roberta", "bert"}}},
      {"masking", &masking,
       "predict each next item (clm), masked items (mlm), or items in a random order (plm); rtd: "
       "masked items, and a second body detects the items sampled in their place; auto = what the "
       "body supports",
       0, 0, with_auto(maskings())},
      {.name = "train_on_last_item_seq_only",
       .value = &train_on_last_item_seq_only,
       .help = "with clm, train only on the last item of each session, the target of evaluation",
       .only_with = kCausal},
      {"mlm_probability", &mlm_probability, "fraction of the items that mlm and rtd mask", 0.01,
       0.99, none, none, "", kWithHidden},
      {"plm_probability", &plm_probability, "fraction of the items that plm predicts", 0.01, 0.99,
       none, none, "", kWithOrder},
      {"plm_max_span_length", &plm_max_span_length, "longest span of predicted items", 1, 1000,
       none, none, "", kWithOrder},
      {.name = "plm_permute_all",
       .value = &plm_permute_all,
       .help = "permute items that are not predicted, too",
       .only_with = kWithOrder},
      {"attn_type", &attn_type,
       "what positions of xlnet attend to with clm: earlier ones, or all (bi: also the targets, as "
       "in Transformers4Rec, so metrics do not show what it predicts)",
       0, 0, Names{"uni", "bi"}, none, "", kWithDistances},
      {"rtd_discriminator_loss_weight", &rtd_discriminator_loss_weight,
       "weight of the discriminator's loss; the generator's has weight 1", 0, 1e6, none, none, "",
       kWithReplaced},
      {"hstu_time", &hstu_time,
       "from where hstu measures the time to events: from the next event (in prediction from the "
       "request), or from the position's own",
       0, 0, Names{"next", "own"}, none, "", kWithTimes},
      {"embedding_initializer_range", &embedding_initializer_range,
       "standard deviation of initial embeddings; " + wide_help(), 0},
      {"sampled_softmax", &sampled_softmax,
       "train against sampled items instead of all; evaluation and prediction rank all"},
      {"max_n_samples", &max_n_samples, "number of sampled items, shared by all targets", 1,
       HUGE_VAL, none, none, "", kWithSampling},
      {"negative_sampling", &negative_sampling,
       "all items equally likely; log_uniform: by rank, for ids sorted by falling count; "
       "popularity: by their counts in the training data to the power of negative_alpha; "
       "in_batch: the other targets of the step, corrected for how often each is one",
       0, 0, kNegatives, none, "", kWithSampling},
      {"negative_alpha", &negative_alpha,
       "power of the counts: 1 = as often as in the data, 0 = all alike", 0, 4, none, none, "",
       kWithPopularity},
      {"loss", &loss, loss_help(), 0, 0, next_item_loss_names()},
      {"n_negatives", &n_negatives, "number of sampled negatives per target", 1, 1e6, none, none,
       "", kWithOwnNegatives},
      {"item_id_dropout", &item_id_dropout,
       "with an item tower: fraction of the items whose own embedding counts as zero, drawn for "
       "each training step, so that features learn to stand alone",
       0, kMostDropped},
      {"label_smoothing_factor", &label_smoothing_factor,
       "label smoothing in training: share of each target that is spread over all items", 0, 0.99},
      {.name = "weight_tying",
       .value = &weight_tying,
       .help = "share the item embedding with the output layer; else that has its own "
               "lm_head.weight, d_model wide",
       .aliases = {"tie_word_embeddings"}},
      {"summary_type", &summary_type,
       "state from which session-level targets are predicted: the last item's, the first's, the "
       "mean, or that of a learned vector after the session (cls)",
       0, 0, kSummaries},
      {"score_padding", &score_padding, "score the padding id 0 like an item"},
      {.name = "attend_padding",
       .value = &attend_padding,
       .help = "bidirectional bodies attend to padding, too",
       .only_with = kWithHidden},
      {"temperature", &temperature, "scores are divided by it", 1e-6},
      {"max_length", &max_length,
       "longest session; longer ones are truncated. Unless given: that of the model that is "
       "loaded, "
       "else the longest in the schema (512 at most), else 20",
       2, HUGE_VAL, none, Names{"max_sequence_length"}, "data"},
  };
  const auto of_losses = fields_of_losses(loss_options);
  const auto before = std::ranges::find(out, "n_negatives", &Field::name);
  out.insert(before + 1, of_losses.begin(), of_losses.end());
  return out;
}

std::string SessionConfig::masking_kind() const {
  return masking == "auto" ? session_body(body).maskings.front() : masking;
}

std::optional<parallel::RowReads> SessionConfig::item_reads() const {
  // A generator's draws are not known before it has run.
  if (detects() || !item_tower.empty() || !(sampled_softmax || has_own_negatives()) ||
      !weight_tying)
    return std::nullopt;
  const int64_t times = stochastic_swap_noise > 0 ? 2 : 1;  // what is there, and what is predicted
  const int64_t own = has_own_negatives() ? n_negatives : 0;
  const int64_t shared = sampled_softmax && !has_in_batch_negatives() ? max_n_samples : 0;
  return parallel::RowReads{shared + 1, (times + own) * max_length};
}

bool SessionConfig::sees_targets() const {
  return !masks_items() && attn_type == "bi" &&
         session_body(body).positions == BodyPositions::InLayers;
}

bool SessionConfig::counts_from_end() const {
  return session_body(body).positions == BodyPositions::FromEnd;
}

int64_t SessionConfig::prediction_length() const {
  const bool learned = session_body(body).positions != BodyPositions::InLayers;
  return std::max<int64_t>(1, max_length - (learned ? 1 : 0));
}

bool SessionConfig::reads_times() const {
  return session_body(body).reads_times;
}

int64_t SessionConfig::inner() const {
  if (n_inner > 0) return n_inner;
  return session_body(body).inner_factor * d_model;
}

std::string SessionConfig::activation_kind() const {
  if (activation != "auto") return activation;
  return session_body(body).activation;
}

int64_t SessionConfig::dim_of(const SessionFeature& feature) const {
  if (embedding_dims.contains(feature.name)) return embedding_dims.at(feature.name);
  if (feature.width > 0) return feature.width;
  const int64_t dim = feature.name == item_feature ? item_embedding_dim : embedding_dim;
  if (dim > 0) return dim;
  if (!infer_embedding_sizes) return d_model;
  return static_cast<int64_t>(
      std::ceil(2 * std::sqrt(std::sqrt(static_cast<double>(feature.cardinality)))));
}

int64_t SessionConfig::item_tower_numbers() const {
  int64_t out = 0;
  for (const auto& feature : item_tower) out += feature.categorical() ? 0 : feature.width + 1;
  return out;
}

const SessionFeature& SessionConfig::item() const {
  for (const auto& feature : features) {
    if (feature.name == item_feature) return feature;
  }
  fail<UsageError>("models", "the item feature '{}' is not among the model's features",
                   item_feature);
}

}  // namespace convoy::models
