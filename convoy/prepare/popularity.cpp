#include "convoy/prepare/popularity.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "convoy/base/error.h"
#include "convoy/data/tools/inspect_rows.h"
#include "convoy/prepare/context.h"

namespace convoy::prepare {

namespace {

/// Rank of `target` by `ranks` (0 = never recommended), without the items in `had`.
int64_t rank_among_others(int64_t target, const auto& had, const std::vector<int64_t>& ranks) {
  const auto rank_of = [&](int64_t id) {
    const auto at = static_cast<size_t>(id);
    return at < ranks.size() ? ranks[at] : 0;
  };
  const int64_t rank = rank_of(target);
  if (rank == 0) return 0;
  std::set<int64_t> before;  // of those had, what is more popular than the target
  for (const int64_t id : had) {
    const int64_t other = rank_of(id);
    if (id == target) return 0;  // no candidate itself
    if (other > 0 && other < rank) before.insert(id);
  }
  return rank - static_cast<int64_t>(before.size());
}

}  // namespace

std::vector<int64_t> count_items(const data::ParquetFiles& data, const std::string& item_column,
                                 int64_t num_items) {
  std::vector<int64_t> counts(static_cast<size_t>(num_items) + 1, 0);
  data::Selection selection{{item_column}, {{item_column, data::IdLimit{num_items}}}};
  select_context(data, selection);
  data::each_rows(data, selection, [&](const data::Rows& rows) {
    const auto& ids = rows.columns.at(item_column);
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      const int64_t begin = ids.begin(row), end = ids.end(row);
      for (int64_t i = begin + context_of(rows, row, end - begin); i < end; ++i) {
        ++counts[static_cast<size_t>(ids.ints[static_cast<size_t>(i)])];
      }
    }
  });
  return counts;
}

PopularityReport popularity_baseline(const std::vector<int64_t>& counts,
                                     const data::ParquetFiles& valid,
                                     const std::string& item_column, const std::vector<int64_t>& ks,
                                     const RankedRows& of) {
  internal_check(!counts.empty(), "data", "popularity without counts");
  std::vector<int64_t> order(counts.size() - 1);
  std::iota(order.begin(), order.end(), 1);
  const auto& candidates = of.candidates;
  std::erase_if(order, [&](int64_t id) {
    const auto at = static_cast<size_t>(id);
    return !candidates.empty() && (at >= candidates.size() || !candidates[at]);
  });
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
  const auto selection = columns_of_targets(item_column, std::ssize(counts) - 1, of);
  data::each_rows(valid, selection, [&](const data::Rows& rows) {
    each_target(rows, item_column, of, [&](int64_t target, const auto& had) {
      const int64_t rank = rank_among_others(target, of.exclude_seen ? had : had.first(0), ranks);
      ++report.num_rows;
      for (size_t i = 0; i < ks.size(); ++i) {
        if (rank < 1 || rank > ks[i]) continue;
        report.ndcg[i] += 1 / std::log2(1 + static_cast<double>(rank));
        report.recall[i] += 1;
        report.mrr[i] += 1 / static_cast<double>(rank);
      }
    });
  });
  for (auto* sums : {&report.ndcg, &report.recall, &report.mrr}) {
    for (double& sum : *sums) sum /= static_cast<double>(std::max<int64_t>(1, report.num_rows));
  }
  return report;
}

}  // namespace convoy::prepare
