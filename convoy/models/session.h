#pragma once

#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/models/gpt2.h"
#include "convoy/nn/block.h"

namespace convoy::models {

/// One input column of the session model.
struct SessionFeature {
  std::string name;
  bool categorical = true;
  int64_t cardinality = 0;  ///< number of ids with the padding id 0 (categorical)
  int64_t dim = 0;          ///< embedding width; 0 = d_model (categorical)
};

/// A sequential recommender: embeddings of tabular features, a GPT-2 body with causal masking,
/// a next-item head tied to the item embedding.
struct SessionConfig {
  std::string item_feature;  ///< the categorical feature that is predicted
  std::vector<SessionFeature> features;
  std::string aggregation = "concat";  ///< concat or sum
  int64_t continuous_projection = 0;   ///< width for all continuous features; 0 = d_model
  double temperature = 1.0;
  Gpt2Config body;

  /// Throws UsageError on settings that do not fit together.
  void check() const;
  const SessionFeature& item() const;

  Json to_json() const;  ///< `config.json`
  static SessionConfig from_json(const Json& json, const std::string& where);
};

/// The blocks of the model. They read a bundle of the feature columns ([B, T] int64 or fp32, right
/// padded with 0) and `lengths` [B].
///
/// Training: next-item loss at every position that has a successor. Evaluation: the last item of
/// each session is hidden and is the target; the bundle gets `target_rank` [rows with a target]
/// (1 = best). Prediction: `hidden` state of the last item scores all items; the bundle gets
/// `scores` [B, V-1] of ids 1..V-1.
nn::BlockList make_session_model(const SessionConfig& config);

}  // namespace convoy::models
