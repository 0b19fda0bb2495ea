#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "convoy/tasks/session/target_rows.h"

namespace convoy::tasks {

/// Rows of an evaluation that get metrics of their own.
struct RowSegment {
  std::string name;          ///< `history_1_to_5`
  std::string title;         ///< for people
  std::vector<size_t> rows;  ///< places among the evaluation's target rows
};

/// Cuts rows by the number of events that their persons had before (new and old ones), by the
/// length of their sessions where a person has several, and by how often training has their
/// targets: the most frequent fifth of `candidates` (by id; empty: all ids of `counts`), the
/// others, and those that are no candidates. Segments without rows are left out, and without counts
/// those of items.
std::vector<RowSegment> segments_of(const std::vector<TargetRow>& rows,
                                    const std::vector<int64_t>& counts,
                                    const std::vector<bool>& candidates);

/// Returns the accuracy of each segment, in their order: the metrics of RankingMetrics with their
/// standard errors, and `rows`. `ranks`: of the rows that segments name.
std::vector<std::map<std::string, double>> segment_metrics(const std::vector<RowSegment>& segments,
                                                           const std::vector<int64_t>& ranks,
                                                           const std::vector<int64_t>& top_ks);

/// Returns a table of the segments at one cut-off, the usual one where it is there.
std::string segments_table(const std::vector<RowSegment>& segments,
                           const std::vector<std::map<std::string, double>>& metrics,
                           const std::vector<int64_t>& top_ks);

}  // namespace convoy::tasks
