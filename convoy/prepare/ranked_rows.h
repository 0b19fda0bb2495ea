#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/data/padding.h"
#include "convoy/data/parquet_files.h"
#include "convoy/prepare/seen.h"

namespace convoy::prepare {

/// Settings of an evaluation of a fixed ranking.
struct RankedRows {
  int64_t max_length = 0;     ///< items of a row that count, from its first on; 0 = all
  bool exclude_seen = false;  ///< items that the owner of a row had are no candidates
  /// Items that each owner had, with the column of owners and kNumSeen. Where null, and for an
  /// owner without a list, the items of the row count.
  std::shared_ptr<const SeenLists> seen = nullptr;
  std::string owner_column = "";
  bool new_ids = false;  ///< ids beyond the counts are targets that are missed, not errors
  /// Flag by id: whether it may be recommended. Empty: all may.
  std::vector<bool> candidates = {};
};

/// Columns that each_target() reads. Ids are at most `num_items`, unless `of` says otherwise.
inline data::Selection columns_of_targets(const std::string& item_column, int64_t num_items,
                                          const RankedRows& of) {
  data::Selection out{{item_column}, {}};
  if (!of.new_ids) out.limits[item_column] = data::IdLimit{num_items};
  if (of.seen) out.columns.insert(out.columns.end(), {of.owner_column, kNumSeen});
  return out;
}

/// Calls `f` with the target of each row of two items or more, its last item, and a span of what
/// its owner had before: the list in `of.seen` up to the row where there is one, else the items of
/// the row.
template <class F>
void each_target(const data::Rows& rows, const std::string& item_column, const RankedRows& of,
                 F&& f) {
  const auto& items = rows.columns.at(item_column);
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    auto length = data::unpadded_length(items, row);
    if (of.max_length > 0) length = std::min(length, of.max_length);
    if (length < 2) continue;
    const auto ids =
        std::span(items.ints)
            .subspan(static_cast<size_t>(items.begin(row)), static_cast<size_t>(length));
    const auto at = static_cast<size_t>(row);
    const int64_t owner = of.seen ? rows.columns.at(of.owner_column).ints[at] : 0;
    if (of.seen && of.seen->has(owner)) {
      f(ids.back(), of.seen->of(owner, rows.columns.at(kNumSeen).ints[at] - 1));
    } else {
      f(ids.back(), ids.first(ids.size() - 1));
    }
  }
}

}  // namespace convoy::prepare
