#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/models/session/session.h"
#include "convoy/tasks/session/baselines/baseline.h"

namespace convoy::tasks {

/// Options of `[data]`: files, and how they are read.
struct DataArguments {
  std::string path;
  std::string train;
  std::string valid;
  std::string schema;
  std::string windows;
  int64_t start = 1, end = 0;
  bool keep_moments = false;
  std::vector<std::string> features;
  std::string truncation = "keep_last";
  std::string partition = "rows";
  int64_t shuffle_window = 0;
  int64_t memory_budget_mb = 256;
  int64_t prefetch_depth = 4;

  /// Returns the path of the training file: `train`, or train.parquet in `path` (data.parquet where
  /// there is no such file), and so on; "" when there is neither.
  std::string train_file() const;
  std::string valid_file() const;
  std::string schema_file() const;
  /// Returns a file beside the schema, or "" where it is not there.
  std::string beside_schema(const std::string& name) const;
  std::string items_file() const { return beside_schema("items.parquet"); }
};

/// Options of a run over windows. Each of its trainings has them as a run without windows does.
inline const std::vector<std::string> kWindowOptions{"data.windows", "data.start", "data.end",
                                                     "data.keep_moments"};

/// Returns the file of rows to evaluate on or to predict for. Of a folder as `convoy data sessions`
/// makes it this is `valid.parquet`, or `train.parquet` where it made no other; else `where`.
/// Throws UsageError for a folder of windows.
std::string rows_in(const std::string& where);

/// Options of `[train]`: metrics of an evaluation of sessions.
struct RankingArguments {
  std::vector<std::string> top_ks{"5", "10", "20"};
  std::string metric_names = "plain";
  std::string exclude_seen = "auto";
  std::vector<std::string> baselines{kPopularity};

  /// Returns the cut-offs of the metrics. Throws UsageError on one that is no positive number.
  std::vector<int64_t> top_k_values() const;
  /// Returns the baselines to compare with. Throws UsageError on a text that names none.
  std::vector<Baseline> baseline_values() const { return parse_baselines(baselines); }
};

/// Options of a session run beside those of training.
struct SessionArguments {
  std::string family = "session";
  std::string parity = "none";
  models::SessionConfig model;  ///< settings of the model; its features come from the data
  std::vector<std::string> prediction_tasks{models::kNextItem};
  std::vector<std::string> task_weights;
  std::vector<std::string> pretrained_embeddings;  ///< entries COLUMN=FILE
  bool pretrained_trainable = false;
  std::vector<std::string> item_tower;  ///< features of items that the item tower reads
  std::string model_name_or_path;       ///< an earlier run to begin with; "" = none
  DataArguments data;
  RankingArguments ranking;
  std::string event_weights;  ///< COLUMN, or COLUMN:VALUE=WEIGHT,...; "" = all targets count alike

  /// Sentences for the user that a run of this shows at its start.
  std::vector<std::string> warnings;

  void declare(OptionTable& table);

  /// Gives the model its targets. Throws UsageError on tasks or weights that are none.
  void take_tasks();

  /// Sets the options of `table` (declared by this object) that nobody has set to what the other
  /// program does, with model.parity. Warns of options that a file keeps from it, where parity was
  /// typed.
  void apply_parity(OptionTable& table);
};

}  // namespace convoy::tasks
