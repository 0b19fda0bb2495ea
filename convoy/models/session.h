#pragma once

#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/models/body.h"
#include "convoy/nn/block.h"

namespace convoy::models {

/// One input column of the session model.
struct SessionFeature {
  std::string name;
  bool categorical = true;
  int64_t cardinality = 0;  ///< number of ids with the padding id 0 (categorical)
  int64_t dim = 0;          ///< embedding width; 0 = d_model (categorical)
};

/// A sequential recommender: embeddings of tabular features, a transformer body, a next-item head
/// tied to the item embedding.
struct SessionConfig {
  std::string item_feature;  ///< the categorical feature that is predicted
  std::vector<SessionFeature> features;
  /// concat, element-wise-sum, or element-wise-sum-item-multi: the item times the others' sum
  std::string aggregation = "concat";
  int64_t continuous_projection = 0;  ///< width for all continuous features; 0 = d_model
  double temperature = 1.0;
  std::string masking = "clm";  ///< clm: the next item of each (gpt2); mlm: hidden items (bert)
  double mlm_probability = 0.15;
  double embedding_initializer_range = 0.02;
  bool score_padding = false;   ///< the padding id is a candidate, as in Transformers4Rec
  bool attend_padding = false;  ///< bert bodies look at padding, as in Transformers4Rec
  BodyConfig body;

  bool masks_items() const { return masking == "mlm"; }
  /// Items of the longest session: masked-item prediction appends a position.
  int64_t max_length() const { return body.n_positions - (masks_items() ? 1 : 0); }
  void set_max_length(int64_t length) { body.n_positions = length + (masks_items() ? 1 : 0); }

  /// Throws UsageError on settings that do not fit together.
  void check() const;
  const SessionFeature& item() const;

  Json to_json() const;  ///< `config.json`
  static SessionConfig from_json(const Json& json, const std::string& where);
};

/// The blocks of the model. They read a bundle of the feature columns ([B, T] int64 or fp32, right
/// padded with 0) and `lengths` [B].
///
/// Training: next-item loss at every position that has a successor, or at the items that are
/// hidden. Evaluation: the last item of each session is hidden and is the target; the bundle gets
/// `target_rank` [rows with a target] (1 = best). Prediction: the state after the last item scores
/// all items; the bundle gets `scores` [B, V-1] of ids 1..V-1.
nn::BlockList make_session_model(const SessionConfig& config);

}  // namespace convoy::models
