#include "convoy/schedule/pipeline/pipeline.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/schedule/pipeline/builders.h"

namespace convoy::schedule {

namespace {

std::vector<PipelineScheduleEntry>& entries() {
  static std::vector<PipelineScheduleEntry> all{
      {PipelineSchedule::Naive, "naive", false, naive},
      {PipelineSchedule::GPipe, "gpipe", false, gpipe},
      {PipelineSchedule::OneFOneB, "1f1b", false, one_f_one_b},
      {PipelineSchedule::Interleaved, "interleaved", true, interleaved},
      {PipelineSchedule::ZeroBubble, "zero_bubble", true, zero_bubble},
      {PipelineSchedule::Automatic, "auto", true, automatic}};
  return all;
}

}  // namespace

const std::vector<PipelineScheduleEntry>& pipeline_schedules() {
  return entries();
}

PipelineSchedule add_pipeline_schedule(const char* name, bool interleaved,
                                       Orders (*orders)(const Pipe& pipe)) {
  for (const auto& known : pipeline_schedule_names()) {
    internal_check(known != name, "schedule", "there is a schedule {} already", name);
  }
  const auto schedule = static_cast<PipelineSchedule>(entries().size());
  entries().push_back({schedule, name, interleaved, orders});
  return schedule;
}

namespace {

/// Whether the orders of a schedule may depend on costs; those of a schedule of one's own may.
bool goes_by_costs(PipelineSchedule schedule, const Pipe& pipe) {
  switch (schedule) {
    case PipelineSchedule::Naive:
    case PipelineSchedule::GPipe:
    case PipelineSchedule::OneFOneB:
    case PipelineSchedule::ZeroBubble:
      return false;
    case PipelineSchedule::Interleaved:
      return !pipe.is_loop();
    default:
      return true;
  }
}

}  // namespace

const Cut& KnownPipes::cut(const std::vector<double>& costs, int num_stages, int virtual_stages,
                           Placement placement) {
  auto [found, fresh] = cuts_.try_emplace({costs, num_stages, virtual_stages, placement});
  if (fresh) found->second = cut_blocks(costs, num_stages, virtual_stages, placement);
  return found->second;
}

Orders KnownPipes::orders(PipelineSchedule schedule, const Pipe& pipe) {
  if (goes_by_costs(schedule, pipe)) return entry_of(schedule).orders(pipe);
  auto [found, fresh] = orders_.try_emplace({schedule, pipe.rank_of, pipe.num_micro_batches});
  if (fresh) found->second = entry_of(schedule).orders(pipe);
  return found->second;
}

std::vector<std::string> pipeline_schedule_names() {
  std::vector<std::string> names;
  for (const auto& entry : pipeline_schedules()) {
    names.emplace_back(entry.name);
  }
  return names;
}

const PipelineScheduleEntry& entry_of(PipelineSchedule schedule) {
  const auto& all = pipeline_schedules();
  return *std::find_if(all.begin(), all.end(),
                       [&](const auto& entry) { return entry.schedule == schedule; });
}

const char* name_of(PipelineSchedule schedule) {
  return entry_of(schedule).name;
}

PipelineSchedule parse_schedule(const std::string& name) {
  for (const auto& entry : pipeline_schedules()) {
    if (entry.name == name) return entry.schedule;
  }
  fail<UsageError>("parallel", "pipeline_schedule = {}; expected one of {}", name,
                   join(pipeline_schedule_names()));
}

}  // namespace convoy::schedule
