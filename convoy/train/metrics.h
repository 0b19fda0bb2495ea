#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

#include "convoy/comm/group.h"

namespace convoy::train {

/// NDCG@k, Recall@k and MRR@k of sessions with one right answer, from its rank. Keeps a histogram
/// of ranks, so memory is O(largest k) and sums over ranks are exact.
class RankingMetrics {
 public:
  explicit RankingMetrics(std::vector<int64_t> top_ks);

  /// ranks [n] int64: 1 = best.
  void add(const at::Tensor& ranks);
  /// Adds up over the processes.
  void reduce(const comm::Group& group);

  int64_t count() const;
  /// `<prefix>ndcg_at_<k>`, `<prefix>recall_at_<k>`, `<prefix>mrr_at_<k>`; empty without rows.
  std::map<std::string, double> values(const std::string& prefix) const;

 private:
  std::vector<int64_t> top_ks_;
  at::Tensor histogram_;  // [0] = rows, [r] = rows whose answer has rank r
};

/// The ranking metrics once more, by the names that Transformers4Rec gives them: with one right
/// answer its average precision is MRR.
void add_transformers4rec_names(std::map<std::string, double>& metrics, const std::string& prefix);

}  // namespace convoy::train
