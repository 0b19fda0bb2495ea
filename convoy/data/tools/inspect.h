#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/base/progress.h"
#include "convoy/data/loader.h"

namespace convoy::data {

struct InspectOptions {
  int64_t ranks = 1;
  int64_t batch_size = 32;  ///< rows of a rank's batch
};

/// Share of one rank by rows, convoy's way, and by row groups.
struct DealtShare : RankShare {
  int64_t groups = 0;  ///< Transformers4Rec's way: contiguous blocks of ceil(groups / ranks)
  int64_t group_rows = 0;
  int64_t group_batches = 0;
};

struct InspectedColumn {
  std::string name;
  std::string type;
  std::vector<std::string> tags;  ///< from the schema
};

/// Content of a data set, and how it is dealt to ranks.
struct InspectReport {
  std::string where;
  int64_t num_files = 0;
  int64_t num_rows = 0;
  int64_t bytes = 0;  ///< of the files
  int64_t num_groups = 0;
  int64_t min_group_rows = 0;
  int64_t median_group_rows = 0;
  int64_t max_group_rows = 0;
  std::vector<InspectedColumn> columns;

  std::string list_column;  ///< column whose lists were measured; "" = there is none
  int64_t min_length = 0;
  double mean_length = 0;
  int64_t max_length = 0;
  int64_t num_short_rows = 0;      ///< fewer than 2 items: nothing to predict
  int64_t num_wrongly_padded = 0;  ///< rows of items with padding before an item,
  std::string wrongly_padded;      ///< the first of them
  std::string id_column;           ///< of the items, by the schema or its usual name; "" = unknown
  std::optional<int64_t> min_id;
  std::optional<int64_t> max_id;
  std::optional<int64_t> schema_max_id;

  int64_t batch_size = 0;
  std::vector<DealtShare> ranks;
  std::vector<std::string> advice;
};

/// Reads the footers, the items and one list column of `where` (a file, a folder or a pattern, see
/// ParquetFiles). The schema is the `schema.json` or `schema.pbtxt` beside the files, if there is
/// one. Throws FileError.
InspectReport inspect(const std::string& where, const InspectOptions& options,
                      const ProgressFn& progress = {});

/// Returns the report for people.
std::string to_text(const InspectReport& report);
/// Returns the report for programs.
Json to_json(const InspectReport& report);

/// Shares of `num_rows` rows in `group_rows` row groups on `ranks` ranks.
std::vector<DealtShare> rank_shares(const std::vector<int64_t>& group_rows, int64_t ranks,
                                    int64_t batch_size);

}  // namespace convoy::data
