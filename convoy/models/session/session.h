#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convoy/models/fields.h"
#include "convoy/models/session/item_tower_values.h"
#include "convoy/nn/block.h"

namespace convoy::models {

/// `model_type` in config.json; other tools know no "session".
inline constexpr const char* kSessionModelType = "convoy_session";

/// One input column of the session model.
struct SessionFeature {
  std::string name;
  bool categorical = true;
  int64_t cardinality = 0;  ///< number of ids with the padding id 0 (categorical)
  bool is_list = true;      ///< a value for each item; else one a session, which all positions have
  int64_t width = 0;        ///< each value is a vector of so many numbers, which are not trained

  /// Each value is one number.
  bool is_number() const { return !categorical && width == 0; }
};

/// Kinds of predictions of a session model, as options and config.json spell them.
inline constexpr const char *kNextItem = "next-item", *kBinary = "binary",
                            *kRegression = "regression";

/// A number of each session that is predicted, too: a column with one value a row.
struct SessionTarget {
  std::string column;
  bool binary = true;  ///< 0 or 1; else any number (regression)
  double weight = 1;   ///< of its loss
};

/// Key in a bundle of prediction, [B] int64: the time for which the next item is asked, in seconds;
/// without it, the time of the last event.
inline constexpr const char* kRequestTime = "request_time";

/// In a bundle of training [B] int64: items at the start of each row that are read, and not asked
/// for; without it there are none.
inline constexpr const char* kNumContext = "num_context";

/// In a bundle of evaluation or prediction [B, E] int64: items that are not to be recommended after
/// a row, padded with 0. They count as ranked behind all others.
inline constexpr const char* kExcluded = "excluded_items";
/// In a bundle of evaluation [B] int64: 1 = a row whose target nothing ranks: it is empty, or has
/// another id in the target's place. Its rank counts as beyond all.
inline constexpr const char* kMissed = "missed_target";
/// Keys of an evaluation's results: of each ranked target its row of the batch [N], and the best
/// items of that row [N, SessionConfig::eval_list], best first; 0 behind them.
inline constexpr const char* kTargetRow = "target_row";
inline constexpr const char* kTopItems = "top_items";

/// Negative sampling that takes the other targets of a step.
inline constexpr const char* kInBatch = "in_batch";

/// Weights of training's next-item targets: each counts in the loss, a weighted mean, as the value
/// of a column at its event says.
struct EventWeights {
  std::string column;            ///< a list for each session; "" = all count alike
  std::vector<float> of_values;  ///< by id of a categorical column; empty: its numbers themselves
};

/// A sequential recommender: embeddings of tabular features, a transformer body, a next-item head,
/// whose matrix is the item embedding or its own.
struct SessionConfig {
  std::string item_feature;  ///< the categorical feature that is predicted
  std::vector<SessionFeature> features;
  std::vector<SessionTarget> targets;  ///< beside the next item
  std::string time_feature;            ///< column of the events' times in seconds; "" = not read
  double next_item_weight = 1;         ///< of its loss, where there are targets
  std::vector<ItemTowerFeature> item_tower;  ///< features of items that their vectors have
  /// Their values, without which no model with a tower can be made. Of the data and of what
  /// training saw, not in config.json.
  std::shared_ptr<const ItemTowerValues> item_values;
  /// Values that swap noise draws from, by feature: [n] int64 or fp32 on the host. They come from
  /// the data and are not in config.json.
  std::map<std::string, at::Tensor> swap_values;
  /// Categorical features whose embeddings are not trained. They belong to the run and are not in
  /// config.json.
  std::set<std::string> frozen_embeddings;
  /// Whether an evaluation of a body that reads times asks at the time of the session's last event,
  /// which is what serving knows, or of the target. Of a run, not in config.json.
  std::string eval_time = "last";
  /// Occurrences of each id in the training data, for negative_sampling = popularity, or among its
  /// targets, for in_batch; empty: each counts alike. Of the data, not in config.json.
  std::vector<int64_t> item_counts;
  /// Weights of targets in training. Of a run, not in config.json.
  EventWeights event_weights;
  /// Items that no training has seen, which are not recommended. Of a run, not in config.json.
  std::vector<int64_t> unseen_items;
  /// Best items that an evaluation gives of each row it ranks (kTopItems), beside which row of the
  /// batch that is (kTargetRow); nothing: neither. Of an evaluation, not in config.json.
  std::optional<int64_t> eval_list;
  /// Predictions are states that are to be multiplied with the output matrix, instead of scores. Of
  /// a program, not in config.json.
  bool predicts_states = false;

  // What fields() tells of.
  int64_t d_model = 64, n_layer = 2, n_head = 4, n_inner = 0;
  double dropout = 0.1;
  std::string activation = "auto";
  double layer_norm_epsilon = 1e-5, initializer_range = 0.02;
  int64_t item_embedding_dim = 0, embedding_dim = 0;
  Json embedding_dims;  ///< by feature: {"kind": 8}
  bool infer_embedding_sizes = false;
  std::string aggregation = "concat";
  int64_t continuous_projection = 0;
  bool soft_embeddings = false;
  int64_t soft_embedding_cardinality = 10, soft_embedding_dim = 0;
  bool tabular_layer_norm = false;
  double stochastic_swap_noise = 0, input_dropout = 0;
  std::string body = "gpt2";
  std::string masking = "auto";
  bool train_on_last_item_seq_only = false;
  double mlm_probability = 0.15;
  double plm_probability = 1.0 / 6;
  int64_t plm_max_span_length = 5;
  bool plm_permute_all = false;
  std::string attn_type = "uni";
  double rtd_discriminator_loss_weight = 50;
  std::string hstu_time = "next";
  double embedding_initializer_range = 0.02;
  bool sampled_softmax = false;
  int64_t max_n_samples = 1000;
  std::string negative_sampling = "uniform";
  double negative_alpha = 0.75;
  std::string loss = "cross_entropy";
  int64_t n_negatives = 256;
  double gbce_t = 0.75;
  double label_smoothing_factor = 0;
  bool weight_tying = true;
  std::string summary_type = "last";
  bool score_padding = false, attend_padding = false;
  double temperature = 1.0;
  int64_t max_length = 20;
  double item_id_dropout = 0;

  /// Every option, bound to this object.
  Fields fields();

  /// Masking with `auto` resolved: clm, mlm, plm or rtd.
  std::string masking_kind() const;
  /// Asks for the items at some positions, which the model does not see there.
  bool masks_items() const { return masking_kind() != "clm"; }
  bool permutes() const { return masking_kind() == "plm"; }
  /// XLNet under clm as in Transformers4Rec: positions see what follows them, their targets too.
  bool sees_targets() const { return !masks_items() && body == "xlnet" && attn_type == "bi"; }
  /// Has a vector that stands where no item is.
  bool has_masked_item() const { return (masks_items() && !permutes()) || sees_targets(); }
  /// A second body tells the items that the first drew for hidden ones.
  bool detects() const { return masking_kind() == "rtd"; }
  /// Looks at what came before alone, and counts positions from the last one that is asked.
  bool counts_from_end() const;
  /// Looks at how long ago events were.
  bool reads_times() const;
  int64_t inner() const;
  /// Activation with `auto` resolved.
  std::string activation_kind() const;
  /// Training scores some items for each target, which are not the same for all.
  bool has_own_negatives() const { return loss != "cross_entropy"; }
  /// Negatives are the other targets of the step.
  bool has_in_batch_negatives() const { return sampled_softmax && negative_sampling == kInBatch; }
  /// Row reads of the item table; nothing where a step may read all of it, or the head has a table
  /// of its own.
  std::optional<parallel::RowReads> item_reads() const;
  /// Targets of whole sessions are read from the state of a vector of its own behind the session.
  bool has_cls() const { return summary_type == "cls" && !targets.empty(); }
  /// Masked-item prediction appends a position, cls another.
  int64_t num_positions() const {
    return max_length + (masks_items() ? 1 : 0) + (has_cls() ? 1 : 0);
  }
  /// Number of items that prediction reads: with a learned vector for each position one less than
  /// max_length, as before the target of a full session in training and evaluation. The vector of
  /// one more position has never been trained.
  int64_t prediction_length() const;
  /// Width of a categorical feature's embedding, or of a vector's projection.
  int64_t dim_of(const SessionFeature& feature) const;
  const SessionFeature& item() const;
  /// Numbers of an item in the tower: those of each feature that has any, and whether they are
  /// missing.
  int64_t item_tower_numbers() const;

  /// Throws UsageError on settings that do not fit together.
  void check() const;
  void check_embedding_dims() const;
  void check_item_tower() const;

  Json to_json() const;  ///< `config.json`
  /// Takes everything from a `config.json`. Throws FileError that names `where`.
  void read_json(const Json& json, const std::string& where);
};

/// The name of a categorical feature's embedding among the weights.
std::string embedding_name(const std::string& feature);
/// The name of a categorical feature's embedding in the item tower, and of the map of all numbers.
std::string item_tower_name(const std::string& feature);
inline constexpr const char* kItemTowerNumbers = "item_tower_projection.weight";

/// The blocks of the model. They read a bundle of the feature columns ([B, T] int64 or fp32, right
/// padded with 0; those with one value a session [B]; vectors have their numbers behind) and
/// `lengths` [B].
///
/// Training: next-item loss at every position that has a successor, or at the items that are
/// hidden. Evaluation: the last item of each session is hidden and is the target; the bundle gets
/// `target_rank` [rows with a target] (1 = best) among all items but unseen_items and kExcluded,
/// and kMissed of the batch. Prediction: the state after the last item scores
/// all items; the bundle gets `scores` [B, V-1] of ids 1..V-1, or with predicts_states `states` [B,
/// W] fp32, whose products with the rows of output_matrix() are scores times the temperature, and
/// `num_items` [B].
///
/// Targets of whole sessions: see SessionTargets. Each session's loss counts once for each item
/// that is asked of it, so losses and weights are of means that compare. Not in prediction, the
/// bundle has their columns.
nn::BlockList make_session_model(const SessionConfig& config);

/// Vectors [V, W] whose products with states are scores, of a model whose weights are in memory;
/// with an item tower of all items that it ranks.
at::Tensor output_vectors(const nn::BlockList& session_model);

/// Matrix [V, W] of what make_session_model() made whose rows score items.
const nn::ParamPtr& output_matrix(const nn::BlockList& session_model);

}  // namespace convoy::models
