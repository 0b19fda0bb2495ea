#include "convoy/models/session.h"

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/models/session_head.h"
#include "convoy/models/session_input.h"

namespace convoy::models {

namespace {

const std::vector<std::string> kAggregations{"concat", "element-wise-sum",
                                             "element-wise-sum-item-multi"};

}  // namespace

const SessionFeature& SessionConfig::item() const {
  for (const auto& feature : features) {
    if (feature.name == item_feature) return feature;
  }
  fail<UsageError>("models", "the item feature '{}' is not among the model's features",
                   item_feature);
}

void SessionConfig::check() const {
  body.check();
  if (masking != "clm" && masking != "mlm") {
    fail<UsageError>("models", "masking '{}' is unknown; expected clm or mlm", masking);
  }
  if (masks_items() != (body.type == "bert")) {
    fail<UsageError>("models",
                     "masking {} does not go with the body {}; try gpt2 with clm or bert with mlm",
                     masking, body.type);
  }
  if (!item().categorical) {
    fail<UsageError>("models", "the item feature '{}' is continuous; expected categorical",
                     item_feature);
  }
  if (item().cardinality < 2) {
    fail<UsageError>("models",
                     "the item feature '{}' has {} ids; expected at least one besides "
                     "padding",
                     item_feature, item().cardinality);
  }
  for (const auto& feature : features) {
    if (feature.dim >= 0 && (!feature.categorical || feature.cardinality >= 1)) continue;
    fail<UsageError>("models", "feature '{}' has {} ids of width {}; expected at least 1 and 0",
                     feature.name, feature.cardinality, feature.dim);
  }
  if (continuous_projection < 0) {
    fail<UsageError>("models", "continuous_projection = {}; expected at least 0",
                     continuous_projection);
  }
  if (!(temperature > 0)) {
    fail<UsageError>("models", "temperature = {}; expected above 0", temperature);
  }
  if (std::find(kAggregations.begin(), kAggregations.end(), aggregation) == kAggregations.end()) {
    fail<UsageError>("models", "aggregation '{}' is unknown; expected {}", aggregation,
                     join(kAggregations, " or "));
  }
  if (aggregation == "concat") return;
  auto check_width = [&](const std::string& what, int64_t width) {
    if (width == 0 || width == body.n_embd) return;
    fail<UsageError>("models",
                     "aggregation = {} needs every feature as wide as d_model = {};"
                     " got {} with {}; try aggregation = concat",
                     aggregation, body.n_embd, what, width);
  };
  for (const auto& feature : features) {
    if (feature.categorical) check_width(feature.name, feature.dim);
  }
  check_width("continuous_projection", continuous_projection);
}

nn::BlockList make_session_model(const SessionConfig& config) {
  config.check();
  auto input = std::make_shared<SessionInput>(config);
  nn::BlockList blocks{input};
  for (int64_t i = 0; i < config.body.n_layer; ++i) {
    blocks.push_back(config.body.type == "bert" ? make_bert_layer(config.body, "bert", i)
                                                : make_gpt2_layer(config.body, "transformer", i));
  }
  blocks.push_back(std::make_shared<SessionHead>(config, input->item_table()));
  return blocks;
}

}  // namespace convoy::models
