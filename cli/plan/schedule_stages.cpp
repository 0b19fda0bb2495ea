#include "cli/plan/schedule_stages.h"

#include <fmt/ranges.h>

#include "cli/commands.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/parallel/pipeline/csv.h"
#include "convoy/report/table.h"

namespace convoy::cli {

namespace {

report::Timeline bars_of(const parallel::PipelinePlan& plan) {
  report::Timeline out;
  for (size_t rank = 0; rank < plan.orders.size(); ++rank) {
    const auto own = plan.pipe.virtual_stages_of(static_cast<int>(rank));
    auto& bars = out.emplace_back();
    for (size_t c = 0; c < plan.orders[rank].size(); ++c) {
      const auto& [v, kind, m] = plan.orders[rank][c];
      const auto row = std::find(own.begin(), own.end(), v) - own.begin();
      bars.push_back({plan.played.begin[rank][c], plan.played.end[rank][c], m,
                      kind != parallel::ActionKind::Forward, static_cast<int>(row),
                      kind == parallel::ActionKind::BackwardWeight});
    }
  }
  return out;
}

std::string lay_of(const parallel::Pipe& pipe) {
  const int64_t each = pipe.num_virtual_stages() / pipe.num_ranks();
  return pipe.is_v() ? "v" : each > 1 ? fmt::format("loop of {}", each) : "one each";
}

}  // namespace

void add_stage_options(CLI::App& command, StagesAsked& asked) {
  const char* group = "Without a model";
  auto& numbers = asked.numbers;
  command
      .add_option("--stages", asked.parallelism.ranks.pipeline,
                  "number of stages, with the costs given below")
      ->check(at_least(1))
      ->group(group);
  command.add_option("--micro_batches", asked.parallelism.micro_batches, "micro-batches per step")
      ->check(at_least(1))
      ->group(group);
  const auto list = [&](const char* name, std::vector<double>& of, const char* help) {
    command.add_option(name, of, help)->delimiter(',')->group(group);
  };
  list("--forward", numbers.forward, "cost of a forward: one number, or one per stage");
  list("--backward", numbers.backward, "cost of backward for input gradients");
  list("--weight", numbers.weight, "cost of backward for weight gradients");
  list("--send", numbers.send, "cost of a message to the next stage, and of one back");
  list("--kept", numbers.kept, "bytes that a micro-batch keeps until backward");
  list("--put_off", numbers.put_off, "of these, bytes kept until the weight gradients");
  command
      .add_option("--virtual_stages", asked.parallelism.pipeline.virtual_stages,
                  "virtual stages per rank, if the schedule has several")
      ->check(at_least(1))
      ->group(group);
  command.add_option("--placement", asked.placement, "loop or v")->group(group);
  command.add_option("--memory", asked.memory, "bytes that a stage may keep with auto")
      ->check(above_zero())
      ->group(group);
  command.add_option("--schedule", asked.schedule, "schedule to save")->group(group);
  command.add_option("--save", asked.save,
                     "write the schedule as CSV for torch.distributed.pipelining");
}

void draw(const std::string& plot, const Pictures& pictures, int num_stages,
          int64_t num_micro_batches) {
  if (plot.empty()) return;
  const auto title = fmt::format("{} stages, {} micro-batches", num_stages, num_micro_batches);
  write_file(plot, report::timeline_svg(pictures, title));
  fmt::print("wrote {}\n", plot);
}

int show_stages(const StagesAsked& asked, const std::string& plot) {
  parallel::check_size(asked.parallelism.ranks.pipeline, asked.parallelism.pipeline.virtual_stages,
                       asked.parallelism.micro_batches);
  const auto costs = asked.numbers.costs(asked.parallelism.ranks.pipeline);
  parallel::PlanOptions options{.parallelism = asked.parallelism, .memory = asked.memory};
  if (!asked.placement.empty()) {
    options.parallelism.pipeline.placement = parallel::placement(asked.placement);
  }
  const auto saved = parallel::parse_schedule(asked.schedule);
  report::Table table;
  table.column("schedule", report::Align::kLeft).column("bubble").column("above the floor");
  table.column("virtual stages", report::Align::kLeft);
  table.column("peak of each stage", report::Align::kLeft);
  std::string texts, csv;
  Pictures pictures;
  for (const auto& [schedule, plan, refusal] : parallel::compare_schedules(costs, options)) {
    const auto* name = schedule->name;
    if (!plan) {
      if (schedule == saved && !asked.save.empty()) throw UsageError(refusal);
      texts += fmt::format("\n{}: {}\n", name, refusal);
      continue;
    }
    table.row({name, fmt::format("{:.1f} %", 100 * plan->played.idle()),
               fmt::format("{:.1f} %", 100 * plan->above_floor()), lay_of(plan->pipe),
               fmt::format("{:.4g}", fmt::join(plan->played.peak, " | "))});
    pictures.emplace_back(name, bars_of(*plan));
    texts += fmt::format("\n{}\n{}", name, report::timeline_text(pictures.back().second, 88));
    if (schedule == saved) csv = parallel::to_csv(plan->orders);
  }
  fmt::print("{}{}", table.to_text(), texts);
  fmt::print("\n{}{}", kAboutTheLetters, kAboutTheFloor);
  draw(plot, pictures, asked.parallelism.ranks.pipeline, asked.parallelism.micro_batches);
  if (asked.save.empty()) return 0;
  write_file(asked.save, csv);
  fmt::print("wrote {} ({})\n", asked.save, asked.schedule);
  return 0;
}

}  // namespace convoy::cli
