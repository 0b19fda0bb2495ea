#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "convoy/train/scorer.h"

namespace convoy::tasks {

/// NDCG@k, Recall@k, MRR@k and AP@k (average precision, which MRR is with one right answer) of
/// sessions with one right answer, from its rank. Keeps a histogram of ranks, so memory is
/// O(largest k) and sums over ranks are exact.
class RankingMetrics : public train::Scorer {
 public:
  /// Makes metrics at `top_ks`. `transformers4rec_names`: adds those that Transformers4Rec has,
  /// too, by its names (`<prefix>/next-item/precision_at_<k>` and so on).
  explicit RankingMetrics(std::vector<int64_t> top_ks, bool transformers4rec_names = false);

  /// Adds out["target_rank"] [n] int64, of which 1 is best.
  void add(const nn::Bundle& out) override { add(out.at("target_rank")); }
  void add(const at::Tensor& ranks);
  /// Adds rows whose answer nothing ranks.
  void add_missed(int64_t count);
  void reduce(const comm::Group& group) override;

  int64_t count() const;
  /// Returns `<prefix>ndcg_at_<k>`, and so on with recall, mrr and avg_precision; 0 without rows.
  /// The first three have standard errors, `<prefix>ndcg_at_<k>_stderr`.
  std::map<std::string, double> values(const std::string& prefix, double loss = 0) const override;

 private:
  bool transformers4rec_names_;
  std::vector<int64_t> top_ks_;
  at::Tensor histogram_;  // [0] = rows, [r] = rows whose answer has rank r
};

}  // namespace convoy::tasks
