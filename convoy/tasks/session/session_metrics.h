#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convoy/comm/to_host.h"
#include "convoy/tasks/session/baselines.h"
#include "convoy/tasks/session/evaluated_rows.h"
#include "convoy/tasks/session/ranking_metrics.h"
#include "convoy/tasks/session/target_metrics.h"
#include "convoy/train/scorer.h"

namespace convoy::tasks {

/// Metrics of an evaluation of sessions: of next items, beside what baselines reach, and of each
/// target.
class SessionMetrics : public train::Scorer {
 public:
  /// `settings`: values of the evaluation's settings by name (train::kExcludeSeen), which its
  /// results tell. `rows`: where the first rank finds what each row scored; null: that is not kept.
  SessionMetrics(RankingMetrics ranking, const std::vector<models::SessionTarget>& targets,
                 std::map<std::string, double> settings,
                 std::shared_ptr<Baselines> baselines = nullptr,
                 std::shared_ptr<EvaluatedRows> rows = nullptr)
      : ranking_(std::move(ranking)),
        targets_(targets.begin(), targets.end()),
        settings_(std::move(settings)),
        baselines_(std::move(baselines)),
        rows_(std::move(rows)),
        collector_(rows_ ? rows_->list_size : 0) {}

  void add(const nn::Bundle& out) override {
    ranking_.add(out);
    const auto missed = out.find(models::kMissed);
    if (missed != out.end()) ranking_.add_missed(comm::item<int64_t>(missed->second.sum()));
    for (auto& target : targets_) target.add(out);
  }
  void add_batch(const parallel::MicroBatch& batch, int64_t first_sample,
                 const nn::Bundle& out) override {
    add(out);
    if (rows_) collector_.add(batch, first_sample, out);
  }
  void reduce(const comm::Group& group) override {
    ranking_.reduce(group);
    for (auto& target : targets_) target.reduce(group);
    if (baselines_) baseline_ = baselines_->metrics(group);
    if (rows_) *rows_ = collector_.gather(group);
  }
  std::string reason_of_none(const std::string& metric) const override {
    for (const auto& target : targets_) {
      if (auto reason = target.reason_of_none(metric); !reason.empty()) return reason;
    }
    return "";
  }
  bool has_rows() const override { return ranking_.count() > 0; }
  std::map<std::string, double> values(const std::string& prefix, double loss) const override {
    auto out = ranking_.values(prefix, loss);
    for (const auto& target : targets_) out.merge(target.values(prefix, loss));
    for (const auto& [name, value] : baseline_) out[prefix + name] = value;
    for (const auto& [name, value] : settings_) out[prefix + name] = value;
    return out;
  }

 private:
  RankingMetrics ranking_;
  std::vector<TargetMetrics> targets_;
  std::map<std::string, double> settings_;
  std::shared_ptr<Baselines> baselines_;
  std::map<std::string, double> baseline_;
  std::shared_ptr<EvaluatedRows> rows_;
  RowCollector collector_;
};

}  // namespace convoy::tasks
