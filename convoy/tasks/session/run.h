#pragma once

#include <filesystem>

#include "convoy/formats/schema.h"
#include "convoy/models/session.h"
#include "convoy/tasks/session/arguments.h"
#include "convoy/train/trainer.h"

namespace convoy::tasks {

/// A session model and the schema of the data that it reads.
struct SessionModel {
  formats::Schema schema;
  models::SessionConfig model;
  std::string owner;  ///< the column that says whose session a row is; "" when the schema has none
};

/// Throws UsageError and FileError that name the option or the file.
SessionModel make_session_model(const SessionArguments& arguments);

/// A model that was trained before, from its output folder or one of its checkpoints: reads
/// config.json, schema.json, and run.toml into `table`, which `arguments` declared.
SessionModel open_session_model(const std::filesystem::path& folder, SessionArguments& arguments,
                                OptionTable& table);

/// What a run keeps beside its weights.
train::ModelFiles session_files(const SessionModel& session, const DataArguments& data);

/// The session data set of a Parquet file for this model. Its streams give `warnings` too; with
/// `with_owner` its batches hold the column session.owner, where the file has it as whole numbers.
std::shared_ptr<train::Dataset> open_sessions(const std::string& where, const SessionModel& session,
                                              const DataArguments& data,
                                              std::vector<std::string> warnings = {},
                                              bool with_owner = false);

}  // namespace convoy::tasks
