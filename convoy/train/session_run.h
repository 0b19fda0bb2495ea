#pragma once

#include <filesystem>

#include "convoy/formats/schema.h"
#include "convoy/models/session.h"
#include "convoy/train/run_config.h"
#include "convoy/train/trainer.h"

namespace convoy::train {

/// What a Trainer needs for the session family, made from a RunConfig and the data's schema.
struct SessionRun {
  formats::Schema schema;
  models::SessionConfig model;
  parallel::ModelFactory factory;
  std::shared_ptr<Dataset> train_data;  ///< null when the run has none
  std::shared_ptr<Dataset> valid_data;  ///< null when the run has none
  ModelFiles files;
};

/// Throws UsageError and FileError that name the option or the file.
SessionRun make_session_run(const RunConfig& config);

/// A model that was trained before, from its output folder or one of its checkpoints: reads
/// config.json, schema.json and run.toml into `config`.
SessionRun open_session_run(const std::filesystem::path& folder, RunConfig& config,
                            OptionTable& table);

/// The session data set of a Parquet file for this model. Its streams give `warnings` too.
std::shared_ptr<Dataset> open_sessions(const std::string& where, const SessionRun& run,
                                       const DataArguments& data,
                                       std::vector<std::string> warnings = {});

}  // namespace convoy::train
