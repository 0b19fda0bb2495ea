#pragma once

#include <string>

#include "convoy/data/parquet_files.h"
#include "convoy/models/session/session.h"

// Columns of sessions in Parquet files. Each check throws FileError that names file and column.
namespace convoy::tasks {

/// Checks that the times of the events are a list of whole seconds a row.
void check_times(const data::ParquetFiles& dataset, const std::string& name);

/// Checks that each feature is a list, or one value a row, as the schema says.
void check_lists(const data::ParquetFiles& dataset, const models::SessionConfig& model);

/// Checks that a target has one number a row; a binary one 0 or 1.
void check_answers(const data::ParquetFiles& dataset, const models::SessionTarget& target);

}  // namespace convoy::tasks
