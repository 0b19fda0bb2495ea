#pragma once

#include <map>
#include <string>
#include <vector>

#include "convoy/models/session/session.h"
#include "convoy/train/scorer.h"

namespace convoy::tasks {

/// Metrics of how well a number of whole sessions is predicted. Of 0 or 1 they are auc, and, of
/// probabilities of at least 0.5, accuracy, precision and recall. auc is the share of pairs of a 1
/// and a 0 whose probabilities are in order, ties by half; 0.5 without such a pair. Of other
/// numbers they are mse and rmse. Keeps all predictions, so that every number of ranks gives the
/// same.
class TargetMetrics : public train::Scorer {
 public:
  explicit TargetMetrics(models::SessionTarget target);

  /// Adds out["prediction.<column>"] and out["answer.<column>"], each [n] fp32. Rows whose answer
  /// is NaN do not count.
  void add(const nn::Bundle& out) override;
  void reduce(const comm::Group& group) override;
  /// Returns `<prefix><column>_auc` and so on; NaN without rows.
  std::map<std::string, double> values(const std::string& prefix, double loss = 0) const override;
  std::string reason_of_none(const std::string& metric) const override;

 private:
  std::vector<double> of_all(const at::Tensor& pairs) const;

  models::SessionTarget target_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> pairs_;  ///< [n, 2] fp32: prediction, answer
  std::vector<double> values_;     ///< metrics in the order of names_
};

}  // namespace convoy::tasks
