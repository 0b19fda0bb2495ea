#pragma once

#include "convoy/data/loader.h"
#include "convoy/data/parquet_files.h"
#include "convoy/models/session/session.h"
#include "convoy/train/batches.h"

namespace convoy::tasks {

/// The input that LoaderOptions::whole gives: [rows, longest] ids, padded with zeros.
inline constexpr char kWholeSession[] = "whole_session";

/// Sessions in Parquet. Its streams give `warnings` beside their own.
std::shared_ptr<train::Dataset> make_session_dataset(data::ParquetFiles dataset,
                                                     data::LoaderOptions options,
                                                     std::vector<std::string> warnings = {});

/// Rows with all that this model reads, drawn, each as long as it reads any.
std::shared_ptr<train::Dataset> make_random_sessions(const models::SessionConfig& model);

}  // namespace convoy::tasks
