#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/data/parquet_files.h"
#include "convoy/prepare/ranked_rows.h"

namespace convoy::prepare {

/// Metrics of a fixed ranking of the items as the prediction of each row's last item.
struct PopularityReport {
  int64_t num_rows = 0;        ///< rows with a target
  std::vector<int64_t> ks;     ///< the cut-offs
  std::vector<double> ndcg;    ///< mean over rows of 1 / log2(1 + rank), 0 beyond k
  std::vector<double> recall;  ///< share of rows with rank <= k
  std::vector<double> mrr;     ///< mean over rows of 1 / rank, 0 beyond k
};

/// Number of occurrences of each id 0 .. num_items in a list column, without context (kNumContext).
std::vector<int64_t> count_items(const data::ParquetFiles& data, const std::string& item_column,
                                 int64_t num_items);

/// Metrics of always recommending the items of greatest count: the rank of a target is one plus the
/// number of items with a greater count, or with the same count and a smaller id. `counts`: by id,
/// entry 0 (padding) is not recommended. Throws FileError for an id beyond `counts`, unless `of`
/// says otherwise.
PopularityReport popularity_baseline(const std::vector<int64_t>& counts,
                                     const data::ParquetFiles& valid,
                                     const std::string& item_column,
                                     const std::vector<int64_t>& ks = {10, 20},
                                     const RankedRows& of = {});

}  // namespace convoy::prepare
