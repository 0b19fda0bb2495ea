#include "convoy/tasks/session/target_metrics.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "convoy/comm/device.h"
#include "convoy/models/session/session_targets.h"

namespace convoy::tasks {

namespace {

/// Area under the curve of (prediction, answer), by the number of pairs that are in order; NaN
/// where all answers are alike, of which none can be in order.
double area_under_curve(std::vector<std::pair<float, float>> rows) {
  std::sort(rows.begin(), rows.end());
  double ones = 0, zeros = 0, in_order = 0;
  for (size_t i = 0; i < rows.size();) {
    double ones_here = 0, zeros_here = 0;  // of the same prediction
    const float prediction = rows[i].first;
    for (; i < rows.size() && rows[i].first == prediction; ++i) {
      (rows[i].second > 0 ? ones_here : zeros_here) += 1;
    }
    in_order += ones_here * (zeros + zeros_here / 2);
    ones += ones_here;
    zeros += zeros_here;
  }
  return ones > 0 && zeros > 0 ? in_order / (ones * zeros) : NAN;
}

}  // namespace

TargetMetrics::TargetMetrics(models::SessionTarget target) : target_(std::move(target)) {
  names_ = target_.binary ? std::vector<std::string>{"auc", "accuracy", "precision", "recall"}
                          : std::vector<std::string>{"mse", "rmse"};
  values_.assign(names_.size(), 0);
}

void TargetMetrics::add(const nn::Bundle& out) {
  const auto predictions = out.at(models::SessionTargets::prediction(target_.column));
  const auto answers = out.at(models::SessionTargets::answer(target_.column));
  const auto both = comm::download(at::stack({predictions, answers}, 1)).to(at::kFloat);
  const auto counts = both.select(1, 1).isnan().logical_not();
  pairs_.push_back(both.index_select(0, counts.nonzero().squeeze(1)));  // on the host
}

void TargetMetrics::reduce(const comm::Group& group) {
  pairs_.push_back(at::empty({0, 2}));
  const auto all = group.gather_rows(at::cat(pairs_), "gather predictions");
  pairs_.clear();
  auto found = at::zeros({std::ssize(names_)}, at::kDouble);
  if (group.rank() == 0) found = at::tensor(of_all(all), at::kDouble);
  group.broadcast(found, 0, "broadcast metrics");
  values_.assign(found.const_data_ptr<double>(), found.const_data_ptr<double>() + found.numel());
}

std::vector<double> TargetMetrics::of_all(const at::Tensor& pairs) const {
  if (pairs.size(0) == 0) return std::vector<double>(names_.size(), NAN);
  const auto count = static_cast<double>(pairs.size(0));
  std::vector<std::pair<float, float>> rows;
  double right = 0, said = 0, ones = 0, squares = 0, both = 0;
  for (int64_t i = 0; i < pairs.size(0); ++i) {
    const auto* row = pairs.const_data_ptr<float>() + 2 * i;
    const bool says = row[0] >= 0.5F, is = row[1] >= 0.5F;
    const double off = static_cast<double>(row[0]) - static_cast<double>(row[1]);
    right += says == is;
    said += says;
    ones += is;
    both += says && is;
    squares += off * off;
    rows.emplace_back(row[0], row[1]);
  }
  if (!target_.binary) return {squares / count, std::sqrt(squares / count)};
  return {area_under_curve(std::move(rows)), right / count, both / std::max(1.0, said),
          both / std::max(1.0, ones)};
}

std::map<std::string, double> TargetMetrics::values(const std::string& prefix, double) const {
  std::map<std::string, double> out;
  for (size_t i = 0; i < names_.size(); ++i) {
    out[prefix + target_.column + "_" + names_[i]] = values_[i];
  }
  return out;
}

std::string TargetMetrics::reason_of_none(const std::string& metric) const {
  for (const auto& name : names_) {
    if (metric != target_.column + "_" + name) continue;
    const bool has_rows = !std::isnan(values_.back());
    return has_rows ? "all rows have the same " + target_.column
                    : "no row counts for the metrics of " + target_.column;
  }
  return "";
}

}  // namespace convoy::tasks
