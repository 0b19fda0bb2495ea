#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "convoy/tasks/session/evaluated_rows.h"

namespace convoy::tasks {

/// Facts of the training data that metrics of recommended lists need, by id of the item; entry 0 is
/// padding.
struct CatalogFacts {
  int64_t num_items = 0;             ///< that may be recommended
  std::vector<int64_t> counts = {};  ///< events with the item; empty: unknown
  std::vector<int64_t> users = {};   ///< persons who had it; empty: unknown
  int64_t num_users = 0;
  /// Values of each categorical column that is the same for all events of an item.
  std::map<std::string, std::vector<int64_t>> categories = {};
};

/// Metrics of recommended lists beside their accuracy, as RecTools defines them, by cut-off
/// (`novelty_at_10`): coverage (CatalogCoverage, normalized), novelty (MeanInvUserFreq),
/// average_popularity (AvgRecPopularity), diversity (IntraListDiversity with the Hamming distance
/// of the categories) and serendipity. All but coverage are means over the rows that have a list,
/// with standard errors (`novelty_at_10_stderr`). `targets`: of each row of `lists`. Metrics of
/// what `facts` do not tell are left out.
std::map<std::string, double> list_metrics(const EvaluatedRows& lists,
                                           const std::vector<int64_t>& targets,
                                           const std::vector<int64_t>& ks,
                                           const CatalogFacts& facts);

}  // namespace convoy::tasks
