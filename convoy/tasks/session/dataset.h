#pragma once

#include "convoy/data/loader.h"
#include "convoy/data/parquet_files.h"
#include "convoy/dataset/batches.h"
#include "convoy/models/session/session.h"
#include "convoy/prepare/seen.h"

namespace convoy::tasks {

/// Whose items are left out of a ranking beside those of a row.
struct SeenBefore {
  std::shared_ptr<const prepare::SeenLists> lists;  ///< null: nothing is known but the row
  std::string owner;                                ///< columns of a row: whose it is,
  std::string count;                                ///< how much of the list was there at its end
};

/// Sessions in Parquet. Its streams give `warnings` beside their own. What LoaderOptions::whole and
/// `known` ask for is in the inputs models::kExcluded and models::kMissed.
std::shared_ptr<dataset::Dataset> make_session_dataset(data::ParquetFiles dataset,
                                                       data::LoaderOptions options,
                                                       std::vector<std::string> warnings = {},
                                                       SeenBefore seen = {});

/// Rows with all that this model reads, drawn, each as long as it reads any.
std::shared_ptr<dataset::Dataset> make_random_sessions(const models::SessionConfig& model);

}  // namespace convoy::tasks
