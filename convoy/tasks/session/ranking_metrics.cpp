#include "convoy/tasks/session/ranking_metrics.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"

namespace convoy::tasks {

namespace {

/// Adds metrics by Transformers4Rec's names: with one right answer its dcg is ndcg, and its
/// precision recall / k.
void add_transformers4rec_names(std::map<std::string, double>& metrics, const std::string& prefix,
                                const std::vector<int64_t>& top_ks) {
  for (const int64_t k : top_ks) {
    const auto ours = [&](const char* name) {
      return metrics.at(fmt::format("{}{}_at_{}", prefix, name, k));
    };
    for (const auto& [name, value] : {std::pair{"ndcg", ours("ndcg")},
                                      {"dcg", ours("ndcg")},
                                      {"recall", ours("recall")},
                                      {"precision", ours("recall") / static_cast<double>(k)},
                                      {"avg_precision", ours("avg_precision")}}) {
      metrics[fmt::format("{}/next-item/{}_at_{}", prefix, name, k)] = value;
    }
  }
}

/// Sum and sum of squares of the rows' scores.
struct Sums {
  double sum = 0, squares = 0;

  void add(double rows, double score) {
    sum += rows * score;
    squares += rows * score * score;
  }
  /// Standard error of the mean over `rows`, at least two: whole numbers of rows and fixed scores
  /// make it, so every layout has the same bits.
  double standard_error(double rows) const {
    const double mean = sum / rows;
    return std::sqrt(std::max(0.0, squares / rows - mean * mean) / (rows - 1));
  }
};

}  // namespace

RankingMetrics::RankingMetrics(std::vector<int64_t> top_ks, bool transformers4rec_names)
    : transformers4rec_names_(transformers4rec_names), top_ks_(std::move(top_ks)) {
  int64_t largest = 0;
  for (int64_t k : top_ks_) largest = std::max(largest, k);
  histogram_ = at::zeros({largest + 1}, at::kLong);
}

void RankingMetrics::add(const at::Tensor& ranks) {
  auto host = comm::download(ranks).to(at::kLong).contiguous();
  auto* counts = histogram_.data_ptr<int64_t>();
  const auto* values = host.data_ptr<int64_t>();
  counts[0] += host.numel();
  for (int64_t i = 0; i < host.numel(); ++i) {
    if (values[i] >= 1 && values[i] < histogram_.numel()) ++counts[values[i]];
  }
}

void RankingMetrics::add_missed(int64_t count) {
  histogram_.data_ptr<int64_t>()[0] += count;
}

void RankingMetrics::reduce(const comm::Group& group) {
  group.all_reduce(histogram_, comm::ReduceOp::Sum, "reduce metrics");
}

int64_t RankingMetrics::count() const {
  return comm::item<int64_t>(histogram_[0]);
}

std::map<std::string, double> RankingMetrics::values(const std::string& prefix, double) const {
  std::map<std::string, double> out;
  const auto* counts = histogram_.data_ptr<int64_t>();
  const auto rows = static_cast<double>(std::max<int64_t>(1, counts[0]));
  for (int64_t k : top_ks_) {
    double ndcg = 0, recall = 0, mrr = 0;
    Sums of_ndcg, of_recall, of_mrr;
    for (int64_t r = 1; r <= k; ++r) {
      auto hits = static_cast<double>(counts[r]);
      ndcg += hits / std::log2(static_cast<double>(r) + 1);
      recall += hits;
      mrr += hits / static_cast<double>(r);
      of_ndcg.add(hits, 1 / std::log2(static_cast<double>(r) + 1));
      of_recall.add(hits, 1);
      of_mrr.add(hits, 1 / static_cast<double>(r));
    }
    out[fmt::format("{}ndcg_at_{}", prefix, k)] = ndcg / rows;
    out[fmt::format("{}recall_at_{}", prefix, k)] = recall / rows;
    out[fmt::format("{}mrr_at_{}", prefix, k)] = mrr / rows;
    out[fmt::format("{}avg_precision_at_{}", prefix, k)] = mrr / rows;
    if (rows < 2) continue;  // nobody knows the error of one
    for (const auto& [name, sums] :
         {std::pair{"ndcg", of_ndcg}, {"recall", of_recall}, {"mrr", of_mrr}}) {
      out[fmt::format("{}{}_at_{}{}", prefix, name, k, train::kStandardError)] =
          sums.standard_error(rows);
    }
  }
  if (transformers4rec_names_) add_transformers4rec_names(out, prefix, top_ks_);
  return out;
}

}  // namespace convoy::tasks
