#include "cli/plan/plan_ranks.h"

#include <fmt/format.h>

#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/planner/search/decision.h"
#include "convoy/report/chart.h"
#include "convoy/report/svg.h"
#include "convoy/report/table.h"

namespace convoy::cli {

namespace {

double rows_per_second(const PlanOfRanks& plan) {
  return static_cast<double>(plan.rows) / plan.best.prediction.seconds;
}

Json json_of(const PlanOfRanks& plan) {
  return {{"ranks", plan.num_ranks},
          {"global_batch_size", plan.rows},
          {"best", plan.fits ? planner::to_json(plan.best) : Json()},
          {"rows_per_second", plan.fits ? Json(rows_per_second(plan)) : Json()},
          {"verdict", plan.verdict}};
}

}  // namespace

PlanOfRanks plan_of_ranks(const planner::PlanReport& report) {
  PlanOfRanks out{.num_ranks = report.space.num_ranks, .rows = report.space.global_batch};
  const auto* best = report.found.best();
  out.fits = best != nullptr;
  const auto* told = out.fits ? best : report.found.smallest();
  if (told == nullptr) {
    out.verdict = report.found.refused.empty() ? "no split" : report.found.refused.front();
    return out;
  }
  out.best = *told;
  out.verdict = planner::verdict(*told, best);
  return out;
}

void print_plans_of_ranks(const std::vector<PlanOfRanks>& plans, bool json) {
  if (json) {
    Json out{{"ranks", Json::array()}};
    for (const auto& plan : plans) out["ranks"].push_back(json_of(plan));
    fmt::print("{}\n", out.dump(2));
    return;
  }
  report::Table table;
  table.column("ranks").column("split", report::Align::kLeft).column("step");
  table.column("rows a step").column("rows a second").column("memory");
  table.column("", report::Align::kLeft);
  for (const auto& plan : plans) {
    const auto& it = plan.best.prediction;
    const bool known = it.memory.sum() > 0;
    table.row({std::to_string(plan.num_ranks), known ? plan.best.split.to_text() : "-",
               plan.fits ? planner::step_text(it.seconds) : "-", std::to_string(plan.rows),
               plan.fits ? fmt::format("{:.1f}", rows_per_second(plan)) : "-",
               known ? human_bytes(it.memory.sum()) : "-", plan.fits ? "" : plan.verdict});
  }
  fmt::print("{}", table.to_text());
}

void draw_plans_of_ranks(const std::string& file, const std::vector<PlanOfRanks>& plans) {
  constexpr double kGiB = 1 << 30, kWidth = 720, kHeight = 340;
  report::LineChart time{.title = "A step of the fastest split",
                         .x_title = "ranks",
                         .y_title = "seconds",
                         .log_x = true,
                         .log_y = true};
  report::LineChart memory{.title = "Memory of the rank that needs most",
                           .x_title = "ranks",
                           .y_title = "GiB",
                           .log_x = true};
  report::Series seconds{"step", {}, {}}, bytes{"memory", {}, {}};
  for (const auto& plan : plans) {
    if (!plan.fits) continue;
    const auto& it = plan.best.prediction;
    seconds.x.push_back(plan.num_ranks);
    seconds.y.push_back(it.seconds);
    bytes.x.push_back(plan.num_ranks);
    bytes.y.push_back(static_cast<double>(it.memory.sum()) / kGiB);
  }
  time.series.push_back(std::move(seconds));
  memory.series.push_back(std::move(bytes));
  report::Svg svg(kWidth, 2 * kHeight);
  report::draw(svg, {0, 0, kWidth, kHeight}, time);
  report::draw(svg, {0, kHeight, kWidth, kHeight}, memory);
  write_file(file, svg.to_string());
}

}  // namespace convoy::cli
