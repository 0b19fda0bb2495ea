#include <algorithm>
#include <cmath>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/models/session/session.h"
#include "convoy/models/session/session_bodies.h"

namespace convoy::models {

void SessionConfig::check() const {
  check_fields(const_cast<SessionConfig*>(this)->fields());
  if (d_model % n_head != 0) {
    int64_t fewer = n_head;
    while (d_model % fewer != 0) --fewer;
    int64_t wider = d_model / n_head * n_head;
    if (wider <= INT64_MAX - n_head) wider += n_head;
    fail<UsageError>(
        "models", "d_model = {} does not divide into n_head = {} heads; try {}d_model = {}",
        d_model, n_head, fewer > 1 ? fmt::format("n_head = {}, or ", fewer) : "", wider);
  }
  if (const auto able = bodies_that_learn_by(masking);
      masking != "auto" && std::find(able.begin(), able.end(), body) == able.end()) {
    fail<UsageError>("models", "masking {} does not go with the body {}; expected one of {}",
                     masking, body, join(able));
  }
  if (train_on_last_item_seq_only && masks_items()) {
    fail<UsageError>(
        "models",
        "train_on_last_item_seq_only = true does not go with masking = {}; try masking "
        "= clm",
        masking_kind());
  }
  if (reads_times() && time_feature.empty()) {
    fail<UsageError>("models",
                     "the body {} reads when each event was, and the data has no list column with "
                     "the tag time; try convoy data sessions --keep-time, or --model.body sasrec",
                     body);
  }
  const auto& softmax = next_item_losses().front().name;
  if (loss != softmax && sampled_softmax) {
    fail<UsageError>("models", "sampled_softmax = true does not go with loss = {}, which {}", loss,
                     has_own_negatives() ? "draws items of its own; try n_negatives instead"
                                         : "scores all items; try loss = " + softmax);
  }
  if (label_smoothing_factor > 0 && (loss != softmax || sampled_softmax)) {
    fail<UsageError>("models",
                     "label_smoothing_factor = {} smooths the {} over all items; got {}; try "
                     "label_smoothing_factor = 0",
                     label_smoothing_factor, softmax,
                     sampled_softmax ? "sampled_softmax" : fmt::format("loss = {}", loss));
  }
  if (permutes() && attend_padding) {
    fail<UsageError>("models", "attend_padding = true does not go with masking = plm");
  }
  if (!item().is_list) {
    fail<UsageError>("models", "the item feature '{}' has one value a session; expected a list",
                     item_feature);
  }
  if (!item().categorical) {
    fail<UsageError>("models", "the item feature '{}' is continuous; expected categorical",
                     item_feature);
  }
  if (item().cardinality < 2) {
    fail<UsageError>("models",
                     "the item feature '{}' has {} ids; expected at least one besides padding",
                     item_feature, item().cardinality);
  }
  if (has_own_negatives() && item().cardinality < 3) {
    fail<UsageError>("models", "loss = {} wants at least two items; got {}", loss,
                     item().cardinality - 1);
  }
  for (const auto& feature : features) {
    if (!feature.categorical || feature.cardinality >= 1) continue;
    fail<UsageError>("models", "feature '{}' has {} ids; expected at least 1", feature.name,
                     feature.cardinality);
  }
  check_embedding_dims();
  check_item_tower();
  if (aggregation == "concat") return;
  for (const auto& [what, width] : {std::pair{"item_embedding_dim", item_embedding_dim},
                                    std::pair{"embedding_dim", embedding_dim},
                                    std::pair{"continuous_projection", continuous_projection},
                                    std::pair{"soft_embedding_dim", soft_embedding_dim}}) {
    if (width == 0 || width == d_model) continue;
    fail<UsageError>("models",
                     "aggregation = {} needs every feature as wide as d_model = {}; got {} = {}; "
                     "try aggregation = concat",
                     aggregation, d_model, what, width);
  }
  for (const auto& feature : features) {
    if (feature.is_number() || dim_of(feature) == d_model) continue;
    fail<UsageError>(
        "models", "aggregation = {} needs every feature as wide as d_model = {}; got {} of '{}'{}",
        aggregation, d_model, dim_of(feature), feature.name,
        feature.width > 0
            ? fmt::format("; try embedding_dims = {{\"{}\": {}}}", feature.name, d_model)
            : " (embedding_dims or infer_embedding_sizes); try aggregation = concat");
  }
}

void SessionConfig::check_item_tower() const {
  if (item_tower.empty()) return;
  if (!weight_tying) {
    fail<UsageError>("models",
                     "an item tower scores by the item embedding and the features of items; try "
                     "weight_tying = true, or no item_tower");
  }
  if (detects()) {
    fail<UsageError>("models", "an item tower does not go with masking = rtd; try masking = mlm");
  }
  std::set<std::string> names;
  for (const auto& feature : item_tower) {
    if (!names.insert(feature.name).second) {
      fail<UsageError>("models", "the item tower has '{}' twice; expected it once", feature.name);
    }
    if (!(feature.deviation > 0) || !std::isfinite(feature.deviation)) {
      fail<UsageError>("models",
                       "the item tower's feature '{}' has the deviation {}; expected a number "
                       "above 0",
                       feature.name, feature.deviation);
    }
    if (feature.cardinality > 0 ? feature.width == 0 : feature.width > 0) continue;
    fail<UsageError>(
        "models", "the item tower's feature '{}' has {} ids and {} numbers; expected some of one",
        feature.name, feature.cardinality, feature.width);
  }
}

void SessionConfig::check_embedding_dims() const {
  if (embedding_dims.is_null()) return;
  if (!embedding_dims.is_object()) {
    fail<UsageError>("models", "embedding_dims = {}; expected widths such as {{\"COLUMN\": 8}}",
                     json_line(embedding_dims));
  }
  std::vector<std::string> known;
  for (const auto& feature : features) {
    if (!feature.is_number()) known.push_back(feature.name);
  }
  for (const auto& [name, width] : embedding_dims.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail<UsageError>(
          "models",
          "embedding_dims names '{}', which is no categorical feature of the model and "
          "no vector; expected some of {}{}",
          name, join(known), did_you_mean(name, known));
    }
    if (width.is_number_integer() && width >= 1 && width <= kWidest) continue;
    fail<UsageError>("models", "embedding_dims has {} for '{}'; expected a width of at least 1",
                     json_line(width), name);
  }
}

}  // namespace convoy::models
