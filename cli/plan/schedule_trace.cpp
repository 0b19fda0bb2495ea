#include "cli/plan/schedule_trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/plan/schedule_stages.h"
#include "convoy/base/files.h"
#include "convoy/parallel/run_plan/measured.h"
#include "convoy/planner/search/decision.h"
#include "convoy/report/table.h"

namespace convoy::cli {

namespace {

double computed(const std::vector<parallel::TimedInstruction>& spans) {
  double out = 0;
  for (const auto& span : spans) out += span.end - span.begin;
  return out;
}

double computed(const parallel::Timeline& timeline) {
  double out = 0;
  for (const auto& spans : timeline.ranks) out += computed(spans);
  return out;
}

/// Returns the timeline with all times `factor` as long.
parallel::Timeline scaled(parallel::Timeline timeline, double factor) {
  timeline.length *= factor;
  for (auto& spans : timeline.ranks) {
    for (auto& span : spans) {
      span.begin *= factor;
      span.end *= factor;
    }
  }
  return timeline;
}

/// Step of median length; of an even number the faster middle one.
const parallel::Timeline& median(std::vector<parallel::Timeline>& steps) {
  std::ranges::sort(steps, {}, &parallel::Timeline::length);
  return steps[(steps.size() - 1) / 2];
}

}  // namespace

report::Timeline bars_of(const parallel::Timeline& timeline, const parallel::Layout& layout) {
  report::Timeline out;
  for (size_t stage = 0; stage < timeline.ranks.size(); ++stage) {
    const auto stretches = layout.virtual_stages(static_cast<int>(stage));
    out.emplace_back();
    for (const auto& [i, begin, end] : timeline.ranks[stage]) {
      if (begin == end) continue;
      const auto stretch =
          std::find_if(stretches.begin(), stretches.end(),
                       [&](const auto& blocks) { return i.block <= blocks.second; });
      const report::TimelineBar bar{
          begin,
          end,
          i.micro_batch,
          i.op != parallel::Op::Forward && i.op != parallel::Op::Recompute,
          static_cast<int>(stretch - stretches.begin()),
          i.op == parallel::Op::BackwardWeight};
      auto& bars = out.back();
      const bool goes_on = !bars.empty() && bars.back().virtual_stage == bar.virtual_stage &&
                           bars.back().micro_batch == bar.micro_batch &&
                           bars.back().backward == bar.backward && bars.back().weight == bar.weight;
      if (goes_on) {
        bars.back().end = end;
      } else {
        bars.push_back(bar);
      }
    }
  }
  return out;
}

int show_trace(const TraceAsked& asked, const parallel::RunPlan& plan, const std::string& plot) {
  auto steps = parallel::measured_steps(asked.file, plan);
  const auto& measured = median(steps);
  // Products are no seconds: both compute as long, all stages together.
  const double factor = asked.in_seconds ? 1 : computed(measured) / computed(plan.timeline);
  const auto simulated = scaled(plan.timeline, factor);
  report::Table table;
  table.column("stage").column("computes").column("simulated").column("waits").column("simulated");
  for (size_t stage = 0; stage < measured.ranks.size(); ++stage) {
    const double took = computed(measured.ranks[stage]), planned = computed(simulated.ranks[stage]);
    table.row({std::to_string(stage), planner::step_text(took), planner::step_text(planned),
               planner::step_text(measured.length - took),
               planner::step_text(simulated.length - planned)});
  }
  const auto& layout = plan.stages[0].layout;
  const auto above = bars_of(measured, layout), below = bars_of(simulated, layout);
  const double end = std::max(measured.length, simulated.length);
  fmt::print(
      "{}, a step as {} has it: {}, simulated {}, {:.2f} times that; a bubble of {:.1f} %, "
      "simulated {:.1f} %\n\n{}",
      asked.schedule, asked.file.string(), planner::step_text(measured.length),
      planner::step_text(simulated.length), measured.length / simulated.length,
      100 * measured.idle(), 100 * simulated.idle(), table.to_text());
  fmt::print("\nmeasured\n{}\nsimulated\n{}\n{}", report::timeline_text(above, 88, end),
             report::timeline_text(below, 88, end), kAboutTheLetters);
  fmt::print("Of {} step{} that the trace has it is the one of median length.{}\n", steps.size(),
             steps.size() == 1 ? "" : "s",
             asked.in_seconds ? ""
                              : "\nThe simulation counts matrix products, scaled to the measured "
                                "compute time of all stages.");
  if (plot.empty()) return 0;
  write_file(plot, report::measured_timeline_svg(
                       above, below,
                       fmt::format("{}: {} stages, {} micro-batches", asked.schedule,
                                   measured.ranks.size(), plan.step.parallelism.micro_batches)));
  fmt::print("wrote {}\n", plot);
  return 0;
}

}  // namespace convoy::cli
