#include "cli/plan_settings.h"

#include <fmt/format.h>

#include "convoy/base/files.h"
#include "convoy/base/text.h"

namespace convoy::cli {

Settings settings_of(const plan::Split& split, const OptionTable& table) {
  const Configured usual;
  Settings out;
  const auto reset = [&](const std::string& key) {
    out.emplace_back(key, usual.table.find(key)->plain());
  };
  for (const char* name : {"replicas", "dp_batch", "recompute_layers", "shard_ranks"}) {
    reset(fmt::format("parallel.{}", name));
  }
  for (const auto& option : table.options()) {
    const bool of_costs = option.name == "pipeline_costs" && split.pipeline > 1;
    if (option.name.starts_with("pipeline_") && !of_costs) reset(option.key());
  }
  if (split.zero < 3) {
    for (const char* name : {"prefetch", "reshard_after_forward", "zero_keep_mb"}) {
      reset(fmt::format("parallel.{}", name));
    }
  }
  if (split.parameters != schedule::Place::Device) reset("parallel.zero_keep_mb");
  if (split.zero < 2) reset("parallel.zero_reduce");
  for (const char* what : {"ranks", "split", "step_seconds", "memory_bytes"}) {
    reset(fmt::format("parallel.planned_{}", what));
  }
  reset("train.gradient_accumulation_steps");
  reset("train.auto_find_batch_size");
  for (const auto& flag : split.to_flags()) {
    const auto equals = flag.find('=');
    out.emplace_back(flag.substr(2, equals - 2), flag.substr(equals + 1));
  }
  return out;
}

void set(OptionTable& table, const Settings& settings) {
  for (const auto& [key, value] : settings) table.set(key, value, "the plan");
}

void set_split(Configured& configured, const plan::Split& split) {
  set(configured.table, settings_of(split, configured.table));
  configured.table.set("parallel.strategy", "auto", "the plan");
}

void set_prediction(Configured& configured, const plan::Planned& planned) {
  auto& parallel = configured.training.parallel;
  parallel.planned_ranks = planned.split.num_ranks();
  parallel.planned_split = planned.split.to_text();
  parallel.planned_step_seconds = planned.prediction.seconds;
  parallel.planned_memory_bytes = planned.prediction.memory.sum();
}

void drop_prediction_of_others(Configured& configured) {
  auto& parallel = configured.training.parallel;
  if (parallel.planned_ranks == 0) return;
  std::vector<std::string> typed;
  for (const auto& [key, value] : settings_of({}, configured.table)) {
    const auto* option = configured.table.find(key);
    if (option->typed && !option->name.starts_with("planned_"))
      typed.push_back("--" + option->name);
  }
  if (typed.empty()) return;
  parallel.planned_ranks = 0;
  configured.notes.push_back(
      fmt::format("{} {} a run that was planned: what the plan predicted does not hold for it",
                  join(typed), typed.size() == 1 ? "changes" : "change"));
}

TrialFolder::TrialFolder() : folder_(unique_folder("convoy-plan")) {
  make_folder(folder_);
}

TrialFolder::~TrialFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string TrialFolder::write(Configured& configured, const plan::Split& split) const {
  set_split(configured, split);
  return write(configured);
}

std::string TrialFolder::write(const Configured& configured) const {
  const auto file = folder_ / "run.toml";
  write_file(file, configured.table.to_toml());
  return file.string();
}

}  // namespace convoy::cli
