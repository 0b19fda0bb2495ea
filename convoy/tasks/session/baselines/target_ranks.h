#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/data/parquet_files.h"
#include "convoy/prepare/ranked_rows.h"
#include "convoy/tasks/session/baselines/item_weights.h"

namespace convoy::tasks {

/// Rank of each row's target, its last item, among the candidates by the sum of the weights from
/// the distinct items that its owner had before: 1 = best, equal scores by id, 0 = no candidate.
/// Rows without two items have none. What the owner had is the list in `rows.seen` up to the row
/// where there is one, else the items of the row. Weights are of ids 0 .. num_items.
std::vector<int64_t> target_ranks(const ItemWeights& weights, int64_t num_items,
                                  const data::ParquetFiles& valid, const std::string& item_column,
                                  const prepare::RankedRows& rows);

}  // namespace convoy::tasks
