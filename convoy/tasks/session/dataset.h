#pragma once

#include "convoy/data/loader.h"
#include "convoy/data/parquet_files.h"
#include "convoy/dataset/batches.h"
#include "convoy/models/session/session.h"
#include "convoy/prepare/seen.h"

namespace convoy::tasks {

/// Lists of the items that a ranking leaves out beside those of a row.
struct SeenBefore {
  std::shared_ptr<const prepare::SeenLists> lists;  ///< null: nothing is known but the row
  std::string owner;                                ///< column: the user whose row it is
  std::string count;                                ///< column: items of the list at the row's end
};

/// Makes a data set of sessions in Parquet. Its streams give `warnings` beside their own. The
/// inputs models::kExcluded and models::kMissed hold what LoaderOptions::whole and `known` ask for.
std::shared_ptr<dataset::Dataset> make_session_dataset(data::ParquetFiles dataset,
                                                       data::LoaderOptions options,
                                                       std::vector<std::string> warnings = {},
                                                       SeenBefore seen = {});

/// Makes a data set of drawn rows with all that this model reads. Each row is as long as the model
/// reads any.
std::shared_ptr<dataset::Dataset> make_random_sessions(const models::SessionConfig& model);

}  // namespace convoy::tasks
