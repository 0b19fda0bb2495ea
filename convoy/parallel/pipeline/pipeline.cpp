#include "convoy/parallel/pipeline/pipeline.h"

#include <fmt/format.h>

#include <list>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::parallel {

namespace {

std::vector<PipelineSchedule>& schedules() {
  static std::vector<PipelineSchedule> all{&kNaive,       &kGPipe,      &kOneFOneB,
                                           &kInterleaved, &kZeroBubble, &kAutomatic};
  return all;
}

}  // namespace

const std::vector<PipelineSchedule>& pipeline_schedules() {
  return schedules();
}

PipelineSchedule add_pipeline_schedule(const ScheduleEntry& entry) {
  static std::list<ScheduleEntry> added;  // whose addresses stay
  for (const auto& known : pipeline_schedule_names()) {
    internal_check(known != entry.name, "parallel", "there is a schedule {} already", entry.name);
  }
  return schedules().emplace_back(&added.emplace_back(entry));
}

std::vector<PipelineSchedule> planned_schedules(int stages, int64_t micro_batches) {
  if (stages == 1) return {&kOneFOneB};
  std::vector<PipelineSchedule> out;
  for (const auto schedule : pipeline_schedules()) {
    const auto is_planned = schedule->is_planned;
    if (is_planned == nullptr || is_planned(stages, micro_batches)) out.push_back(schedule);
  }
  return out;
}

std::vector<int64_t> begun_forwards(PipelineSchedule schedule, const Pipe& pipe, int rank) {
  if (schedule->begun != nullptr) return schedule->begun(pipe, rank);
  return std::vector<int64_t>(pipe.virtual_stages_of(rank).size(), 1);
}

std::string pipeline_schedules_help() {
  std::vector<std::string> out;
  for (const auto schedule : pipeline_schedules()) {
    out.push_back(fmt::format("{} ({})", schedule->name, schedule->help));
  }
  return join(out);
}

const Cut& KnownPipes::cut(const std::vector<double>& costs, int num_stages, int virtual_stages,
                           Placement placement) {
  auto [found, fresh] = cuts_.try_emplace({costs, num_stages, virtual_stages, placement});
  if (fresh) found->second = cut_blocks(costs, num_stages, virtual_stages, placement);
  return found->second;
}

Orders KnownPipes::orders(PipelineSchedule schedule, const Pipe& pipe) {
  const auto goes_by_costs = schedule->goes_by_costs;
  if (goes_by_costs == nullptr || goes_by_costs(pipe)) return schedule->orders(pipe);
  auto [found, fresh] = orders_.try_emplace({schedule, pipe.rank_of, pipe.num_micro_batches});
  if (fresh) found->second = schedule->orders(pipe);
  return found->second;
}

std::vector<std::string> pipeline_schedule_names() {
  std::vector<std::string> names;
  for (const auto schedule : pipeline_schedules()) names.emplace_back(schedule->name);
  return names;
}

PipelineSchedule parse_schedule(const std::string& name) {
  for (const auto schedule : pipeline_schedules()) {
    if (schedule->name == name) return schedule;
  }
  fail<UsageError>("parallel", "pipeline_schedule = {}; expected one of {}", name,
                   join(pipeline_schedule_names()));
}

}  // namespace convoy::parallel
