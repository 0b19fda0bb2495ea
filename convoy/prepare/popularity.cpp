#include "convoy/prepare/popularity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/data/tools/inspect_rows.h"

namespace convoy::prepare {

std::vector<int64_t> count_items(const data::ParquetFiles& data, const std::string& item_column,
                                 int64_t num_items) {
  std::vector<int64_t> counts(static_cast<size_t>(num_items) + 1, 0);
  const data::Selection selection{{item_column}, {{item_column, data::IdLimit{num_items}}}};
  data::each_rows(data, selection, [&](const data::Rows& rows) {
    for (int64_t id : rows.columns.at(item_column).ints) ++counts[static_cast<size_t>(id)];
  });
  return counts;
}

PopularityReport popularity_baseline(const std::vector<int64_t>& counts,
                                     const data::ParquetFiles& valid,
                                     const std::string& item_column,
                                     const std::vector<int64_t>& ks) {
  internal_check(!counts.empty(), "data", "popularity without counts");
  std::vector<int64_t> order(counts.size() - 1);
  std::iota(order.begin(), order.end(), 1);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return counts[static_cast<size_t>(a)] > counts[static_cast<size_t>(b)];
  });
  std::vector<int64_t> ranks(counts.size(), 0);
  for (size_t place = 0; place < order.size(); ++place) {
    ranks[static_cast<size_t>(order[place])] = static_cast<int64_t>(place) + 1;
  }

  PopularityReport report;
  report.ks = ks;
  report.ndcg.assign(ks.size(), 0);
  report.recall.assign(ks.size(), 0);
  report.mrr.assign(ks.size(), 0);
  const data::IdLimit limit{static_cast<int64_t>(order.size())};
  data::each_rows(
      valid, data::Selection{{item_column}, {{item_column, limit}}}, [&](const data::Rows& rows) {
        const data::Column& items = rows.columns.at(item_column);
        for (int64_t row = 0; row < rows.num_rows; ++row) {
          if (items.end(row) - items.begin(row) < 2) continue;
          const int64_t rank =
              ranks[static_cast<size_t>(items.ints[static_cast<size_t>(items.end(row) - 1)])];
          ++report.num_rows;
          for (size_t i = 0; i < ks.size(); ++i) {
            if (rank < 1 || rank > ks[i]) continue;
            report.ndcg[i] += 1 / std::log2(1 + static_cast<double>(rank));
            report.recall[i] += 1;
            report.mrr[i] += 1 / static_cast<double>(rank);
          }
        }
      });
  for (auto* sums : {&report.ndcg, &report.recall, &report.mrr}) {
    for (double& sum : *sums) sum /= static_cast<double>(std::max<int64_t>(1, report.num_rows));
  }
  return report;
}

}  // namespace convoy::prepare
