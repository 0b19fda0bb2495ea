#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/report/table.h"
#include "convoy/report/timeline.h"
#include "convoy/train/from_arguments.h"
#include "convoy/train/pipeline.h"

namespace convoy::cli {

namespace {

struct ScheduleOptions {
  std::string config;
  std::string plot;
};

/// Neighbouring blocks of a micro-batch as one bar.
report::Timeline bars_of(const schedule::Timeline& timeline, const schedule::Layout& layout) {
  report::Timeline out;
  for (size_t stage = 0; stage < timeline.ranks.size(); ++stage) {
    const auto rows = layout.runs_of_blocks(static_cast<int>(stage));
    out.emplace_back();
    for (const auto& [i, begin, end] : timeline.ranks[stage]) {
      if (begin == end) continue;
      const auto row = std::find_if(rows.begin(), rows.end(),
                                    [&](const auto& blocks) { return i.block <= blocks.second; });
      const report::TimelineBar bar{begin, end, i.micro_batch, i.op != schedule::Op::Forward,
                                    static_cast<int>(row - rows.begin())};
      auto& bars = out.back();
      const bool goes_on =
          !bars.empty() && bars.back().end == begin && bars.back().row == bar.row &&
          bars.back().micro_batch == bar.micro_batch && bars.back().backward == bar.backward;
      if (goes_on) {
        bars.back().end = end;
      } else {
        bars.push_back(bar);
      }
    }
  }
  return out;
}

int show_schedules(const ScheduleOptions& options) {
  if (!options.plot.empty() && std::filesystem::path(options.plot).extension() != ".svg") {
    fail<UsageError>("cli", "--plot {} would be a picture in SVG; try a name that ends with .svg",
                     options.plot);
  }
  const auto configured = read_config(options.config);
  const auto& arguments = configured->training;
  const auto num_stages = static_cast<int>(arguments.parallel.pipeline_parallel_size);
  if (num_stages < 2) {
    fail<UsageError>("cli", "one stage has no schedule; try --pipeline_parallel_size 4");
  }
  const auto blocks = configured->task->prepare(arguments.parallel).factory();
  report::Table table;
  table.column("schedule", report::Align::kLeft).column("stands still");
  table.column("micro-batches kept, at most").column("blocks of each stage", report::Align::kLeft);
  std::string texts;
  std::vector<std::pair<std::string, report::Timeline>> pictures;
  for (const char* name : {"gpipe", "1f1b", "interleaved"}) {
    auto way = arguments;
    way.parallel.pipeline_schedule = name;
    const bool as_many_rows = (std::string_view(name) == "interleaved") ==
                              (arguments.parallel.pipeline_schedule == "interleaved");
    if (!as_many_rows) way.parallel.pipeline_splits.clear();
    const auto how = train::replica_options(way, true);
    try {
      const auto layout = parallel::layout_of(blocks, how, {.num_stages = num_stages});
      const auto programs = parallel::make_programs(layout, how.pipeline.schedule,
                                                    parallel::step_options(blocks, how));
      const auto timeline = programs.timeline(parallel::product_costs(blocks));
      double kept = 0;
      for (size_t s = 0; s < programs.alive.size(); ++s) {
        const auto all = static_cast<double>(layout.options().stages[s].size());
        const auto& alive = programs.alive[s];
        kept = std::max(kept, static_cast<double>(std::max(alive.blocks, alive.inputs)) / all);
      }
      table.row({name, fmt::format("{:.1f} %", 100 * timeline.idle()), fmt::format("{:.1f}", kept),
                 train::stages_text(layout)});
      auto bars = bars_of(timeline, layout);
      texts += fmt::format("\n{}\n{}", name, report::timeline_text(bars, 88));
      pictures.emplace_back(name, std::move(bars));
    } catch (const UsageError& error) {
      // One of the three need not go; the one that is asked for must.
      if (name == arguments.parallel.pipeline_schedule) throw;
      texts += fmt::format("\n{}: {}\n", name, error.what());
    }
  }
  fmt::print("{}{}", table.to_text(), texts);
  if (!arguments.parallel.pipeline_splits.empty()) {
    fmt::print("\npipeline_splits holds for schedules with as many rows of blocks only.\n");
  }
  fmt::print(
      "\n0 to 9: forward of a micro-batch; a to j: its backward, which takes twice as long; .: "
      "stands still.\nOf what blocks cost only the products with weights count, and messages take "
      "no time.\n");
  if (options.plot.empty()) return 0;
  write_file(options.plot,
             report::timeline_svg(pictures, fmt::format("{} stages, {} micro-batches", num_stages,
                                                        arguments.gradient_accumulation_steps)));
  fmt::print("wrote {}\n", options.plot);
  return 0;
}

}  // namespace

void add_schedule(CLI::App& app, Run& run) {
  auto options = std::make_shared<ScheduleOptions>();
  auto* command =
      app.add_subcommand("schedule", "Show how the stages of a pipeline would take turns");
  command->add_option("config", options->config, "TOML file of the run");
  command->add_option("--plot", options->plot, "draw it as this SVG file");
  command->footer(
      "Takes the options of convoy train, starts nothing, and compares the schedules of "
      "--pipeline_schedule for this model (--pipeline_virtual_stages goes with interleaved).\n"
      "Example:\n  convoy schedule run.toml --pipeline_parallel_size 4 "
      "--gradient_accumulation_steps 8 --plot pipeline.svg\n");
  command->callback([options, &run] { run = [options] { return show_schedules(*options); }; });
}

}  // namespace convoy::cli
