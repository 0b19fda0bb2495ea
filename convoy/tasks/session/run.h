#pragma once

#include <filesystem>

#include "convoy/data/micro_batch.h"
#include "convoy/formats/schema.h"
#include "convoy/job/job.h"
#include "convoy/models/session/session.h"
#include "convoy/tasks/session/known_items.h"
#include "convoy/tasks/session/session_arguments.h"
#include "convoy/train/checkpoints/model_files.h"
#include "convoy/train/trainer.h"

namespace convoy::tasks {

/// Whether a file is a table by the ending of its name: text or Parquet.
bool is_table(const std::filesystem::path& file);

/// Refuses a text file of events with a UsageError. It says how they become sessions whose ids are
/// those of the run in `ids_from`; "" = of none.
void refuse_events(const std::string& where, const std::filesystem::path& ids_from);

/// Reads the schema of the data and gives the model its features. Throws UsageError and FileError
/// that name the option or the file.
formats::Schema take_features(SessionArguments& arguments);

/// Opens a model that was trained before, from its output folder or one of its checkpoints. Reads
/// run.toml into `table`, which `arguments` declared, config.json, and schema.json, which it
/// returns.
formats::Schema open_session_model(const std::filesystem::path& folder, SessionArguments& arguments,
                                   OptionTable& table);

/// Returns the name of the file beside the schema with the raw values of a categorical feature:
/// category.parquet of category-list.
std::string names_file(const std::string& feature);

/// Returns the files that a run keeps beside its weights.
train::ModelFiles session_files(const SessionArguments& arguments, const formats::Schema& schema);

/// Returns the limits at which lists of the data are cut.
data::ListLimits list_limits(const SessionArguments& arguments);

/// Columns that batches of sessions hold beside the model's.
struct MoreColumns {
  /// Whether batches hold the model's targets. All of them are read once: throws FileError on one
  /// that is no answer.
  bool answers = true;
  std::string owner = "";  ///< column of rows' users, if the file has it as whole numbers
  /// Whether batches hold models::kExcluded: the items that the owner of each row had before, as
  /// far as kSeenFile beside the data tells, else the items of the row.
  bool excluded = false;
  bool trains = false;     ///< adds models::kNumContext, if the file has it, and event weights
  bool evaluates = false;  ///< true: the last item of a row is its target; false: it is known
  std::shared_ptr<const KnownIdsOfModel> known = nullptr;  ///< null: all ids are
  /// Whether the data are others than those that the model was trained with. If so, ids that it has
  /// not are unknown, too.
  bool of_others = false;
  int64_t most_items = 0;  ///< most items of a row to read, if below max_length; 0: max_length
  int64_t told_rows = 0;   ///< number of first rows that notes are of; 0: all
  /// Place where open_sessions() tells what the model does not know or read of the rows; null:
  /// nowhere.
  std::vector<std::string>* notes = nullptr;
};

/// Opens the session data set of a Parquet file for this model. Its streams give `warnings` too.
std::shared_ptr<dataset::Dataset> open_sessions(const std::string& where,
                                                const SessionArguments& arguments,
                                                const formats::Schema& schema,
                                                std::vector<std::string> warnings = {},
                                                const MoreColumns& more = {});

/// Draws the values for swap noise of this model from its training data.
void take_swap_values(SessionArguments& arguments, const formats::Schema& schema, int64_t seed);

}  // namespace convoy::tasks
