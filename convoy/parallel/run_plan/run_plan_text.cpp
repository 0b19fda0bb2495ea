#include "convoy/parallel/run_plan/run_plan_text.h"

#include <fmt/ranges.h>

#include "convoy/base/text.h"
#include "convoy/parallel/pipeline/csv.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::parallel {

namespace {

/// Name of a schedule, with facts about it that the name does not tell.
std::string schedule_text(const RunPlan& plan, const PipelineOptions& asked) {
  const bool searched = asked.schedule == &kAutomatic;
  const auto name = asked.csv.empty() ? std::string(asked.schedule->name) : asked.file;
  if (!searched && asked.csv.empty()) return name;
  std::vector<std::string> parts;
  if (searched) parts.push_back(plan.found.empty() ? "a custom order" : plan.found);
  const auto pipe = pipe_of(plan.cut, plan.step.parallelism.micro_batches);
  const auto each = pipe.virtual_stages_of(0).size();
  if (each > 1) {
    parts.push_back(fmt::format("{} virtual stages per rank, placement {}", each,
                                pipe.is_loop() ? "loop" : "v"));
  }
  const bool halves = has_halves(plan.orders);
  parts.emplace_back(halves ? "split backward" : "full backward");
  return fmt::format("{} ({})", name, join(parts));
}

}  // namespace

std::string stages_text(const Layout& layout) {
  std::vector<std::string> stages;
  for (size_t stage = 0; stage < layout.options().stages.size(); ++stage) {
    std::vector<std::string> stretches;
    for (const auto& [first, last] : layout.virtual_stages(static_cast<int>(stage))) {
      stretches.push_back(first == last ? std::to_string(first)
                                        : fmt::format("{}-{}", first, last));
    }
    stages.push_back(join(stretches, ", "));
  }
  return join(stages, " | ");
}

std::string pipeline_text(const RunPlan& plan, const Parallelism& parallelism) {
  if (plan.stages.size() == 1) return "";
  const auto chosen = plan.recomputed_by_choice();
  return fmt::format(
      "{} stages, {}, blocks {}{}; a bubble of about {:.0f} %", plan.stages.size(),
      schedule_text(plan, parallelism.pipeline), stages_text(plan.stages[0].layout),
      chosen.empty() ? "" : fmt::format(", of which {} are recomputed", fmt::join(chosen, ", ")),
      100 * plan.timeline.idle());
}

std::string pipeline_csv(const RunPlan& plan) {
  const auto pipe = pipe_of(plan.cut, plan.step.parallelism.micro_batches);
  const bool trains = !plan.stages.empty() && !plan.stages[0].step.empty();
  // Neighbouring virtual stages that are computed as one are no v any more.
  const bool readable = !plan.cut.empty() && (pipe.is_loop() || pipe.is_v());
  return trains && readable ? to_csv(plan.orders) : "";
}

}  // namespace convoy::parallel
