#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/plan/schedule_stages.h"
#include "cli/plan/schedule_trace.h"
#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/named_file.h"
#include "convoy/base/text.h"
#include "convoy/job/run_options.h"
#include "convoy/nn/declare.h"
#include "convoy/options/batch.h"
#include "convoy/parallel/pipeline/compare.h"
#include "convoy/parallel/pipeline/csv.h"
#include "convoy/parallel/run_plan/run_plan_text.h"
#include "convoy/planner/cost/pipeline_inputs.h"
#include "convoy/report/table.h"

namespace convoy::cli {

namespace {

struct ScheduleOptions {
  std::string config;
  std::string plot;
  StagesAsked stages;
};

/// Peak of each stage in bytes or, where sizes are unknown, in micro-batches through all its
/// blocks.
std::vector<std::string> kept_by_stages(const parallel::RunPlan& plan, bool in_bytes) {
  std::vector<std::string> out;
  if (in_bytes) {
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      out.push_back(human_bytes(plan.timeline.peak(s)));
    }
    return out;
  }
  auto pipe = parallel::pipe_of(plan.cut, plan.step.parallelism.micro_batches);
  const auto& stages = plan.stages[0].layout.options().stages;
  pipe.costs = pipe.all_costs();
  for (size_t v = 0; v < plan.cut.size(); ++v) {
    const auto& [first, last, stage] = plan.cut[v];
    pipe.costs.kept[v] = static_cast<double>(last - first + 1) /
                         static_cast<double>(stages[static_cast<size_t>(stage)].size());
  }
  pipe.costs.put_off = pipe.costs.kept;
  for (const double kept : parallel::play(pipe, plan.orders).peak) {
    out.push_back(fmt::format("{:.3g}", kept));
  }
  return out;
}

/// Pipeline schedule to compare for this model.
struct NamedSchedule {
  std::string name;
  parallel::Parallelism parallelism;
  bool asked = false;  ///< it is what a training would do
};

/// Schedules to compare: all that have a name, and the one of a file.
std::vector<NamedSchedule> named_schedules(const options::TrainingArguments& arguments,
                                           const parallel::Parallelism& parallelism) {
  const auto& asked = arguments.parallel.parallelism.pipeline;
  std::vector<NamedSchedule> out;
  for (const auto* entry : parallel::pipeline_schedules()) {
    auto& one = out.emplace_back(NamedSchedule{entry->name, parallelism});
    one.parallelism.pipeline.schedule = entry;
    one.parallelism.pipeline.file = one.parallelism.pipeline.csv = "";
    one.asked = asked.file.empty() && entry == asked.schedule;
    const bool as_many_stages = entry->interleaved == asked.schedule->interleaved;
    if (!as_many_stages || !asked.file.empty()) one.parallelism.pipeline.splits.clear();
  }
  if (!asked.file.empty()) out.push_back({asked.file, parallelism, true});
  return out;
}

/// Compares schedules in a table, and draws each of them.
class Comparison {
 public:
  explicit Comparison(bool in_bytes) : in_bytes_(in_bytes) {
    table_.column("schedule", report::Align::kLeft).column("bubble").column("above the floor");
    table_.column("blocks of each stage", report::Align::kLeft);
    table_.column(in_bytes ? "kept for backward by each" : "micro-batches that each keeps",
                  report::Align::kLeft);
  }

  void add(const NamedSchedule& one, const parallel::RunPlan& plan, double floor) {
    constexpr int kLetters = 88;
    const auto& layout = plan.stages[0].layout;
    const double above = std::max(0.0, plan.timeline.length / floor - 1);
    table_.row({one.name, fmt::format("{:.1f} %", 100 * plan.timeline.idle()),
                fmt::format("{:.1f} %", 100 * above), parallel::stages_text(layout),
                join(kept_by_stages(plan, in_bytes_), " | ")});
    auto bars = bars_of(plan.timeline, layout);
    texts_ += fmt::format("\n{}\n{}", one.name, report::timeline_text(bars, kLetters));
    pictures_.emplace_back(one.name, std::move(bars));
  }
  void leave_out(const NamedSchedule& one, const std::string& reason) {
    texts_ += fmt::format("\n{}: {}\n", one.name, reason);
  }

  std::string to_text() const { return table_.to_text() + texts_; }
  const auto& pictures() const { return pictures_; }

 private:
  bool in_bytes_;
  report::Table table_;
  std::string texts_;
  std::vector<std::pair<std::string, report::Timeline>> pictures_;
};

/// Sentence about the costs of a comparison.
const char* about_the_costs(bool given, bool counted) {
  if (given) {
    return "Block costs are those of pipeline_costs. Messages take no time unless it gives one.";
  }
  return counted ? "Block costs are matrix products, counted with samples of the data. Messages "
                   "take no time."
                 : "Block costs are the elements of a block's matrices. Messages take no time.";
}

/// Throws UsageError for options that have no effect together.
void check(const ScheduleOptions& options) {
  if (!options.plot.empty() && std::filesystem::path(options.plot).extension() != ".svg") {
    fail<UsageError>("schedule",
                     "--plot {} would be a picture in SVG; try a name that ends with .svg",
                     options.plot);
  }
  const auto typed = typed_overrides();
  if (options.stages.parallelism.ranks.pipeline == 0 || typed.empty()) return;
  fail<UsageError>("schedule",
                   "{} has no effect with --stages, which are numbers without a model; try one of "
                   "them",
                   typed[0]);
}

int show_schedules(const ScheduleOptions& options) {
  check(options);
  const auto& save = options.stages.save;
  for (const auto& file : {save, options.plot}) check_named_file(file);
  if (options.stages.parallelism.ranks.pipeline > 0)
    return show_stages(options.stages, options.plot);
  const auto configured = read_config(options.config);
  auto& arguments = configured->training;
  // Only a typed --trace asks to show one; a run's file may name the trace that the run wrote.
  const bool traced = configured->table.find("output.trace")->typed;
  if (traced && !save.empty()) {
    fail<UsageError>("schedule",
                     "--save writes a schedule, and --trace shows one that was run; try "
                     "--save without --trace");
  }
  options::hold_batch(arguments, 1);
  const auto num_stages = arguments.parallel.num_stages();
  if (num_stages < 2) {
    fail<UsageError>("schedule", "one stage has no schedule; try --pipeline_parallel_size 4");
  }
  parallel::check_size(num_stages, arguments.parallel.parallelism.pipeline.virtual_stages,
                       arguments.gradient_accumulation_steps);
  const auto prepared = configured->task->prepare(arguments.parallel);
  const auto inputs =
      planner::pipeline_inputs(prepared.factory, arguments, prepared.train_data.get());
  const auto model = nn::declare(prepared.factory());
  const parallel::Mesh mesh({.pipeline = num_stages}, 0, num_stages);
  const auto& asked = arguments.parallel.parallelism.pipeline;
  const bool in_bytes = !inputs.counts.empty();
  auto replica = job::replica_options(arguments, true);
  take(inputs, replica.parallelism, replica.counts);
  const auto facts = replica.facts();
  Comparison comparison(in_bytes);
  for (const auto& one : named_schedules(arguments, replica.parallelism)) {
    if (traced && !one.asked) continue;
    try {
      const auto plan = parallel::plan_run(model, mesh, one.parallelism, facts);
      if (traced) {
        return show_trace({arguments.output.trace, one.name, !asked.costs.empty()}, plan,
                          options.plot);
      }
      comparison.add(one, plan, parallel::floor_of(model, plan, one.parallelism, facts));
      if (one.asked && !save.empty()) write_file(save, parallel::to_csv(plan.orders));
    } catch (const UsageError& error) {
      // The others need not go, the one that is asked for must.
      if (one.asked) throw;
      comparison.leave_out(one, error.what());
    }
  }
  fmt::print("{}", comparison.to_text());
  if (!asked.splits.empty()) {
    fmt::print("\npipeline_splits holds for schedules with as many virtual stages only.\n");
  }
  if (!save.empty()) fmt::print("\nwrote {}\n", save);
  fmt::print("\n{}{}{}\n", kAboutTheLetters, kAboutTheFloor,
             about_the_costs(!asked.costs.empty(), in_bytes));
  draw(options.plot, comparison.pictures(), num_stages, arguments.gradient_accumulation_steps);
  return 0;
}

}  // namespace

void add_schedule(CLI::App& app, RunCommand& run) {
  auto options = std::make_shared<ScheduleOptions>();
  auto* command =
      app.add_subcommand("schedule", "Compare pipeline schedules for a model by simulation");
  command->add_option("config", options->config, "TOML file of the run");
  command->add_option("--plot", options->plot, "draw the schedules to this SVG file");
  add_stage_options(*command, options->stages);
  command->footer(
      "Takes the options of convoy train, trains nothing, and compares the schedules of "
      "--pipeline_schedule, and that of --pipeline_schedule_file, for this model. With --trace "
      "FILE it compares a step that convoy train --trace FILE recorded (with the same options) to "
      "its simulation, and --plot draws both, one above the other.\n"
      "Example:\n  convoy schedule run.toml --pipeline_parallel_size 4 "
      "--gradient_accumulation_steps 8 --plot pipeline.svg\n  convoy schedule run.toml "
      "--pipeline_parallel_size 4 --trace trace.json --plot trace.svg\n  convoy schedule --stages "
      "4 "
      "--micro_batches 8 --forward 1 --backward 1 --weight 1 --save pipe.csv\n");
  command->callback([options, &run] { run = [options] { return show_schedules(*options); }; });
}

}  // namespace convoy::cli
