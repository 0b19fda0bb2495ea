#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "convoy/data/loader.h"
#include "convoy/data/parquet_files.h"
#include "convoy/tasks/session/dataset.h"

namespace convoy::tasks {

/// Counts over the rows of an evaluation or a prediction: what the model does not know of them or
/// does not read.
struct UnknownRows {
  int64_t num_rows = 0;           ///< that have a target where there are targets
  int64_t short_rows = 0;         ///< the others
  int64_t rows_without_list = 0;  ///< rows of persons whom SeenBefore does not have
  int64_t unknown_targets = 0;    ///< rows whose target no training has seen
  int64_t empty_rows = 0;         ///< rows without an item (before the target) that the model knows
  int64_t unknown_items = 0;      ///< items that are passed over, in
  int64_t partial_rows = 0;       ///< so many rows
  int64_t cut_rows = 0;           ///< rows of which the model reads some items alone
  int64_t num_items = 0;          ///< of all these rows, without padding
  int64_t cut_items = 0;          ///< of these, those that are beyond what the model reads
  int64_t seen_targets = 0;       ///< rows whose target is left out, as the person had it before
  std::map<std::string, int64_t> unknown_values;  ///< of other categorical columns

  /// Sentences for the user on what is not 0. `max_length`: of the model, which may read fewer
  /// items of a row. `targets`: columns that it predicts, too.
  std::vector<std::string> notes(const data::ListLimits& limits, int64_t max_length,
                                 const std::vector<std::string>& targets) const;
};

/// Reads the columns of ids once. Nothing is unknown where `options` has no KnownIds, nor left out
/// where `seen` has no lists and `options` no whole rows. `most`: rows to look at, the first ones;
/// 0 = all.
UnknownRows survey_unknown(const data::ParquetFiles& dataset, const std::string& item_column,
                           const data::LoaderOptions& options, const SeenBefore& seen,
                           int64_t most = 0);

}  // namespace convoy::tasks
