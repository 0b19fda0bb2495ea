#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/parallel/pipeline/plan.h"

namespace convoy::parallel {

/// Plan of a schedule, or the reason why there is none.
struct ComparedSchedule {
  PipelineSchedule schedule;
  std::optional<PipelinePlan> plan = {};
  std::string refusal = {};
};

/// Costs of stages given as numbers, without a model: a list has one number for each stage; one
/// number holds for all. Throws UsageError, naming the option, where a list is of another length or
/// a number is no time.
struct StageNumbers {
  std::vector<double> forward = {1};
  std::vector<double> backward = {1};  ///< its input half
  std::vector<double> weight = {1};    ///< its weight half
  std::vector<double> send = {0};      ///< a message to the next stage, and one back
  std::vector<double> kept = {1};      ///< of a micro-batch until its backward
  std::vector<double> put_off = {};    ///< of that until its weight half; empty: all

  Costs costs(int num_stages) const;
};

/// Throws UsageError where schedules have more actions than can be compared side by side.
void check_size(int64_t num_stages, int64_t virtual_stages, int64_t num_micro_batches);

/// All schedules, each as `options` have it but for the schedule.
std::vector<ComparedSchedule> compare_schedules(const Costs& by_stage, const PlanOptions& options);

}  // namespace convoy::parallel
