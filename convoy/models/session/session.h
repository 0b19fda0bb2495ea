#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convoy/models/fields.h"
#include "convoy/models/session/item_tower_values.h"
#include "convoy/models/session/next_item_losses.h"
#include "convoy/nn/block.h"

namespace convoy::models {

/// Value of `model_type` in config.json; other tools know no "session".
inline constexpr const char* kSessionModelType = "convoy_session";

/// Input column of the session model.
struct SessionFeature {
  std::string name;
  bool categorical = true;
  int64_t cardinality = 0;  ///< number of ids with the padding id 0 (categorical)
  bool is_list = true;      ///< true: a value for each item; false: one for all of a session
  int64_t width = 0;        ///< numbers in each value, a vector that is not trained; 0: no vector

  /// Whether each value is one number.
  bool is_number() const { return !categorical && width == 0; }
};

/// Kinds of predictions of a session model, as options and config.json spell them.
inline constexpr const char *kNextItem = "next-item", *kBinary = "binary",
                            *kRegression = "regression";

/// Column with one number a session, which the model predicts beside the next item.
struct SessionTarget {
  std::string column;
  bool binary = true;  ///< true: values are 0 or 1; false: any number (regression)
  double weight = 1;   ///< of its loss
};

/// Key in a bundle of prediction of the times for which the next items are asked: [B] int64, in
/// seconds. Without it, each row is asked at the time of its last event.
inline constexpr const char* kRequestTime = "request_time";

/// Key in a bundle of training of the number of context items: [B] int64. The model reads that many
/// items at the start of each row, and is not asked for them. Without it there are none.
inline constexpr const char* kNumContext = "num_context";

/// Key in a bundle of evaluation or prediction of the items that are not recommended after a row:
/// [B, E] int64, padded with 0. They rank behind all others.
inline constexpr const char* kExcluded = "excluded_items";
/// Key in a bundle of evaluation of rows whose target nothing ranks: [B] int64, 1 for such a row.
/// The row is empty, or has another id in the target's place. Its rank counts as beyond all.
inline constexpr const char* kMissed = "missed_target";
/// Keys of an evaluation's results. kTargetRow: the row of the batch of each ranked target [N].
/// kTopItems: the best items of that row [N, SessionConfig::eval_list], best first; 0 behind them.
inline constexpr const char* kTargetRow = "target_row";
inline constexpr const char* kTopItems = "top_items";

/// Name of the negative sampling that takes the other targets of a step.
inline constexpr const char* kInBatch = "in_batch";

/// Weights of the next-item targets in training. The loss is a weighted mean, in which each target
/// counts as the value of a column at its event says.
struct EventWeights {
  std::string column;            ///< column with a list for each session; "" = all count alike
  std::vector<float> of_values;  ///< by id of a category; empty: the column holds the weights
};

/// Settings of a sequential recommender: embeddings of tabular features, a transformer body, and a
/// next-item head, whose matrix is the item embedding or its own.
struct SessionConfig {
  std::string item_feature;  ///< the categorical feature that is predicted
  std::vector<SessionFeature> features;
  std::vector<SessionTarget> targets;  ///< predictions beside the next item
  std::string time_feature;            ///< column of the events' times in seconds; "" = not read
  double next_item_weight = 1;         ///< weight of its loss, where there are targets
  std::vector<ItemTowerFeature> item_tower;  ///< features that items' vectors are made of
  /// Values of the tower's features. A model with a tower cannot be made without them. They come
  /// from the data and from what training saw, and are not in config.json.
  std::shared_ptr<const ItemTowerValues> item_values;
  /// Values that swap noise draws from, by feature: [n] int64 or fp32 on the host. They come from
  /// the data and are not in config.json.
  std::map<std::string, at::Tensor> swap_values;
  /// Categorical features whose embeddings are not trained. They belong to the run and are not in
  /// config.json.
  std::set<std::string> frozen_embeddings;
  /// Time at which an evaluation of a body that reads times asks: "last", the time of the session's
  /// last event, which is what serving knows, or "target", the time of the target. It belongs to
  /// the run and is not in config.json.
  std::string eval_time = "last";
  /// Occurrences of each id in the training data, for negative_sampling = popularity, or among the
  /// targets, for in_batch. Empty: each id counts alike. They come from the data and are not in
  /// config.json.
  std::vector<int64_t> item_counts;
  /// Weights of targets in training. They belong to the run and are not in config.json.
  EventWeights event_weights;
  /// Items that no training has seen, which are not recommended. They belong to the run and are not
  /// in config.json.
  std::vector<int64_t> unseen_items;
  /// Number of best items (kTopItems) that an evaluation gives of each row it ranks, beside the row
  /// of the batch (kTargetRow). Nothing: it gives neither. The evaluation sets it; it is not in
  /// config.json.
  std::optional<int64_t> eval_list;
  /// Whether predictions are states, to be multiplied with the output matrix, instead of scores.
  /// The program sets it; it is not in config.json.
  bool predicts_states = false;

  // Options that fields() lists.
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
  std::map<std::string, double> loss_options = initial_loss_options();  ///< of single losses
  double label_smoothing_factor = 0;
  bool weight_tying = true;
  std::string summary_type = "last";
  bool score_padding = false, attend_padding = false;
  double temperature = 1.0;
  int64_t max_length = 20;
  double item_id_dropout = 0;

  /// Options of the model, each bound to this object.
  Fields fields();

  /// Returns the masking, with `auto` resolved: clm, mlm, plm or rtd.
  std::string masking_kind() const;
  /// Whether training hides items and asks for them.
  bool masks_items() const { return masking_kind() != "clm"; }
  bool permutes() const { return masking_kind() == "plm"; }
  /// Whether positions see what follows them, their targets too: XLNet under clm, as in
  /// Transformers4Rec.
  bool sees_targets() const;
  /// Whether a learned vector stands where no item is.
  bool has_masked_item() const { return (masks_items() && !permutes()) || sees_targets(); }
  /// Whether a second body tells the items that the first drew for hidden ones.
  bool detects() const { return masking_kind() == "rtd"; }
  /// Whether the body looks only at what came before, and counts positions from the last one that
  /// is asked.
  bool counts_from_end() const;
  /// Whether the body looks at how long ago events were.
  bool reads_times() const;
  int64_t inner() const;
  /// Returns the activation, with `auto` resolved.
  std::string activation_kind() const;
  /// Whether training scores, for each target, some items of its own.
  bool has_own_negatives() const { return next_item_loss(loss).with_negatives != nullptr; }
  /// Whether negatives are the other targets of the step.
  bool has_in_batch_negatives() const { return sampled_softmax && negative_sampling == kInBatch; }
  /// Row reads of the item table; nothing where a step may read all of it, or the head has a table
  /// of its own.
  std::optional<parallel::RowReads> item_reads() const;
  /// Whether targets of whole sessions are read from the state of a vector of its own behind the
  /// session.
  bool has_cls() const { return summary_type == "cls" && !targets.empty(); }
  /// Number of positions: max_length, one more for masked-item prediction, and one more for cls.
  int64_t num_positions() const {
    return max_length + (masks_items() ? 1 : 0) + (has_cls() ? 1 : 0);
  }
  /// Number of items that prediction reads. With a learned vector for each position it is one less
  /// than max_length, as before the target of a full session in training and evaluation: the vector
  /// of one more position has never been trained.
  int64_t prediction_length() const;
  /// Width of a categorical feature's embedding, or of a vector's projection.
  int64_t dim_of(const SessionFeature& feature) const;
  const SessionFeature& item() const;
  /// Number of numbers that the tower reads of an item: for each feature that is numbers, those and
  /// one that says whether they are missing.
  int64_t item_tower_numbers() const;

  /// Throws UsageError on settings that do not fit together.
  void check() const;
  void check_embedding_dims() const;
  void check_item_tower() const;

  Json to_json() const;  ///< `config.json`
  /// Takes all settings from a `config.json`. Throws FileError that names `where`.
  void read_json(const Json& json, const std::string& where);
};

/// Returns the name of a categorical feature's embedding among the weights.
std::string embedding_name(const std::string& feature);
/// Returns the name of a categorical feature's embedding in the item tower. kItemTowerNumbers is
/// the name of the map of all numbers.
std::string item_tower_name(const std::string& feature);
inline constexpr const char* kItemTowerNumbers = "item_tower_projection.weight";

/// Makes the blocks of the model. Throws UsageError on settings that do not fit together. The
/// blocks read a bundle of the feature columns, [B, T] int64 or fp32, right padded with 0, and
/// `lengths` [B]. Columns with one value a session are [B]; vectors have their numbers behind.
///
/// Training: gives the next-item loss at every position that has a successor, or at the items that
/// are hidden.
///
/// Evaluation: hides the last item of each session, which is the target. The bundle gets
/// `target_rank` [rows with a target] (1 = best) among all items but unseen_items and kExcluded,
/// and kMissed of the batch.
///
/// Prediction: scores all items by the state after the last item. The bundle gets `scores` [B, V-1]
/// of ids 1..V-1. With predicts_states it gets `states` [B, W] fp32 instead, whose products with
/// the rows of output_matrix() are scores times the temperature, and `num_items` [B].
///
/// Targets of whole sessions: see SessionTargets. Each session's loss counts once for each item
/// that is asked of it, so losses and weights are of means that compare. The bundle has the
/// targets' columns, but for prediction.
nn::BlockList make_session_model(const SessionConfig& config);

/// Returns the vectors [V, W] whose products with states are scores, of a model whose weights are
/// in memory. With an item tower they are those of all items that it ranks.
at::Tensor output_vectors(const nn::BlockList& session_model);

/// Returns the matrix [V, W] whose rows score items, of what make_session_model() made.
const nn::ParamPtr& output_matrix(const nn::BlockList& session_model);

}  // namespace convoy::models
