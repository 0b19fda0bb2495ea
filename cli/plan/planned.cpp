#include "cli/plan/planned.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "cli/asked.h"
#include "cli/plan/plan_settings.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json_value.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/lineage.h"
#include "convoy/comm/agree.h"
#include "convoy/comm/device.h"
#include "convoy/machine/host.h"
#include "convoy/options/batch.h"
#include "convoy/planner/devices/these_gpus.h"
#include "convoy/planner/plan/planner.h"
#include "convoy/planner/search/decision.h"
#include "convoy/train/checkpoints/checkpoints.h"

namespace convoy::cli {

namespace {

namespace fs = std::filesystem;

/// Everything that a kept plan depends on: where any of it differs, the run is planned anew.
Json question_of(const options::TrainingArguments& arguments, const job::Job& met) {
  const auto& ranks = met.environment;
  return {{"ranks", ranks.world_size},
          {"hosts", ranks.num_nodes},
          {"threads", met.threads},
          {"processor", machine::read_host().cpu},
          {"device", met.devices.at(0).is_cpu() ? "cpu" : "gpu"},
          {"gpu_bytes", comm::device_memory(met.devices.at(0)).total},
          {"tf32", arguments.tf32},
          {"global_batch_size", options::step_rows(arguments, ranks.world_size)},
          {"optim", arguments.optim},
          {"bf16", arguments.bf16},
          {"fp16", arguments.fp16},
          {"device_memory", arguments.parallel.device_memory},
          {"offload_dir", arguments.parallel.parallelism.offload.folder.string()}};
}

/// Checkpoints that the run may resume from, the newest first: it takes the first whole one. None:
/// it starts anew.
std::vector<fs::path> checkpoints_of(const options::TrainingArguments& arguments,
                                     const job::Job& met) {
  const auto from = train::resume_source(arguments);
  const auto& dir = arguments.output.dir;
  std::vector<fs::path> out;
  // With the plan of this job, as its other checkpoints.
  for (const auto& copy : train::left_memory_copies(arguments, met.environment)) {
    out.push_back(copy);
  }
  if (!from.empty() && from != "latest") {
    out.emplace_back(from);
    return out;
  }
  const bool again = arguments.resume_from_checkpoint.empty() && met.environment.restart_count > 0;
  if ((from.empty() && !again) || dir.empty()) return out;
  for (auto& path : checkpoint::Line(dir).newest_first()) out.push_back(std::move(path));
  return out;
}

/// Plan in the checkpoint that the run resumes from; null where there is none for `question`.
/// Unreadable newer checkpoints are passed over, as resuming does, or lead to a new plan.
Json kept_plan(const options::TrainingArguments& arguments, const job::Job& met,
               const Json& question) {
  for (const auto& folder : checkpoints_of(arguments, met)) {
    const auto file = folder / kPlanFile;
    if (!fs::exists(folder / checkpoint::kState)) continue;
    if (!fs::exists(file)) return {};
    try {
      const auto out = parse_json(read_regular_file(file), file.string());
      return out.is_object() && out.value("for", Json()) == question ? out : Json();
    } catch (const FileError&) {
      continue;
    }
  }
  return {};
}

/// First rank of the host with the furthest copy in memory; 0 where no host has any. Collective.
int rank_of_copies(const options::TrainingArguments& arguments, const job::Job& met,
                   const comm::Group& all) {
  auto steps = at::full({all.size()}, -1, at::kLong);
  if (met.environment.local_rank == 0) {
    const auto copies = train::left_memory_copies(arguments, met.environment);
    if (!copies.empty()) steps[all.rank()] = checkpoint::step_of(copies.front());
  }
  all.all_reduce(steps, comm::ReduceOp::Max, "tell memory copies");
  const auto* begin = steps.const_data_ptr<int64_t>();
  return static_cast<int>(std::max_element(begin, begin + all.size()) - begin);
}

/// Plan of the checkpoint that the run resumes from, as rank 0 sees it, or a host that has copies
/// in memory which rank 0's host lacks. Collective.
Json find_plan(const options::TrainingArguments& arguments, const job::Job& met,
               const comm::Group& all, const Json& question) {
  constexpr const char* kLabel = "look for a plan";
  const auto look = [&] { return kept_plan(arguments, met, question); };
  const int rank = rank_of_copies(arguments, met, all);
  const auto found = rank > 0 ? comm::ask_rank(all, rank, kLabel, look) : Json();
  return found.is_null() ? comm::ask_main(all, kLabel, look) : found;
}

/// Returns the ranks' devices, with what is measured of them. Collective.
planner::Target measure(const options::TrainingArguments& arguments, const job::Job& met,
                        const job::MetRanks& ranks) {
  if (met.devices.at(0).is_cpu()) return planner::ThisHost{.sums = planner::time_sums(met, ranks)};
  return planner::Devices{planner::these_gpus(arguments, met, ranks),
                          "from rates measured on these GPUs", /*reach_this_disk=*/true};
}

Json make_plan(const std::string& config, const job::Job& met, const planner::Target& where,
               const Json& question) {
  const auto [scratch, run] = ask_about(config, {.tells = false});
  const planner::PlanRequest request{
      .num_ranks = met.environment.world_size, .where = where, .threads = met.threads};
  const auto report =
      planner::make_plan(run.factory, scratch->training, *run.train_data, request, {});
  if (report.is_like_this_host) tell(planner::spread_warnings(report.costs->spread()));
  const auto* best = report.found.best();
  if (best == nullptr) {
    const auto why = planner::decision(report.numbers, report.cluster, report.space, report.found);
    fail<UsageError>("plan", "no plan fits. {}", why.back());
  }
  Json settings = Json::object();
  for (const auto& [key, value] : settings_of(best->split, scratch->table)) settings[key] = value;
  return {{"for", question},
          {"settings", settings},
          {"split", best->split.to_text()},
          {"seconds", best->prediction.seconds},
          {"memory_bytes", best->prediction.memory.sum()}};
}

}  // namespace

void check_plans(const Configured& configured) {
  if (configured.training.parallel.strategy != "plan") return;
  for (const auto& key : typed_for_plan(configured.table)) {
    fail<UsageError>("cli", "--{} is for a plan to decide; try without it, or --strategy auto",
                     configured.table.find(key)->name);
  }
}

job::Decision decide(const std::string& config, Configured& configured, const job::Job& met,
                     const job::MetRanks& met_ranks, std::string& text) {
  const auto& all = met_ranks.all;
  const auto& arguments = configured.training;
  const auto& ranks = met.environment;
  job::check_even_hosts(ranks, "strategy = plan");
  const auto question = question_of(arguments, met);
  auto told = find_plan(arguments, met, all, question);
  const bool kept = !told.is_null();
  if (!kept) {
    const auto where = measure(arguments, met, met_ranks);
    told = comm::ask_main(
        all, "plan", [&] { return make_plan(config, met, where, question); }, comm::Lasts::Long);
  }
  Settings settings;
  for (const auto& [key, value] : told.at("settings").items()) {
    settings.emplace_back(key, value.get<std::string>());
  }
  set(configured.table, settings);
  configured.table.check();
  text = told.dump(2) + "\n";
  return {arguments.parallel,
          {ranks.world_size, told.at("split").get<std::string>(),
           value_from<double>(told.at("seconds")), value_from<int64_t>(told.at("memory_bytes")), "",
           kept}};
}

}  // namespace convoy::cli
