#include "cli/plan/plan_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/parallel/knobs.h"

namespace convoy::cli {

Settings settings_of(const parallel::Parallelism& split, const OptionTable& table) {
  const Configured usual;
  Settings out;
  const auto reset = [&](const std::string& key) {
    out.emplace_back(key, usual.table.find(key)->plain());
  };
  for (const char* name : {"parallel.replicas", "parallel.dp_batch"}) reset(name);
  for (const auto& knob : parallel::knobs()) {
    if (knob.is_reset(split) && !knob.is_written(split)) reset(knob.key());
  }
  for (const auto& option : table.options()) {
    if (option.name.starts_with("planned_")) reset(option.key());
  }
  reset("train.gradient_accumulation_steps");
  reset("train.auto_find_batch_size");
  reset("train.deepspeed");  // what the file says of the rest is in the table by now
  for (const auto& flag : to_flags(split)) {
    const auto equals = flag.find('=');
    out.emplace_back(flag.substr(2, equals - 2), flag.substr(equals + 1));
  }
  return out;
}

std::vector<std::string> typed_for_plan(const OptionTable& table) {
  std::vector<std::string> out;
  // Stage 3, as the plans with it read how its shards are gathered.
  for (const auto& [key, value] : settings_of({.zero = 3}, table)) {
    const auto* option = table.find(key);
    // Options that a plan reads: the rows of a step, and settings of a file beside parallelism.
    const bool is_read = option->name == "per_device_train_batch_size" ||
                         option->name == "gradient_accumulation_steps" ||
                         option->name == "global_batch_size" || option->name == "deepspeed" ||
                         option->name == "pipeline_costs";
    const bool is_new = std::find(out.begin(), out.end(), key) == out.end();
    if (option->typed && !is_read && is_new) out.push_back(key);
  }
  return out;
}

void set(OptionTable& table, const Settings& settings) {
  for (const auto& [key, value] : settings) table.set(key, value, "the plan");
}

Settings settings_of_run(const parallel::Parallelism& split, const OptionTable& table) {
  auto out = settings_of(split, table);
  // A split of one rank uses one device; `auto` would use all GPUs of the host.
  out.emplace_back("parallel.strategy", split.num_ranks() == 1 ? "single" : "auto");
  return out;
}

Settings settings_of_trial() {
  return {{"train.eval_strategy", "no"},
          {"train.eval_on_start", "false"},
          {"train.load_best_model_at_end", "false"},
          {"train.metric_for_best_model", ""},
          {"train.early_stopping_patience", "0"},
          {"train.auto_find_batch_size", "false"},
          {"train.report_to", "none"},
          {"parallel.planned_ranks", "0"},
          {"output.trace", ""},
          {"output.events", ""},
          {"output.metrics_file", ""},
          {"output.metrics_port", "0"},
          {"output.quiet", "true"}};
}

void set_split(Configured& configured, const parallel::Parallelism& split) {
  set(configured.table, settings_of_run(split, configured.table));
}

void set_prediction(Configured& configured, const planner::Candidate& planned,
                    const std::string& device) {
  configured.training.parallel.planned = {planned.split.num_ranks(), planned.split.to_text(),
                                          planned.prediction.seconds,
                                          planned.prediction.memory.sum(), device};
}

void drop_prediction_of_others(Configured& configured) {
  auto& planned = configured.training.parallel.planned;
  if (planned.ranks == 0) return;
  std::set<std::string> decide{"parallel.strategy", "parallel.threads", "parallel.device",
                               "train.bf16",        "train.fp16",       "train.optim"};
  for (const auto& [key, value] : settings_of({}, configured.table)) decide.insert(key);
  std::vector<std::string> typed;
  for (const auto& option : configured.table.options()) {
    const bool counts =
        option.section == "model" || option.section == "data" || decide.contains(option.key());
    if (!option.typed || !counts || option.name.starts_with("planned_")) continue;
    typed.push_back("--" + option.name);
  }
  if (typed.empty()) return;
  planned = {};
  configured.notes.push_back(
      fmt::format("{} {} a run that was planned: what the plan predicted does not hold for it",
                  join(typed), typed.size() == 1 ? "changes" : "change"));
}

TrialFolder::TrialFolder() : folder_(unique_folder("convoy-plan")) {}

std::string TrialFolder::write(Configured& configured, const Settings& settings) const {
  auto& table = configured.table;
  std::vector<std::array<std::string, 3>> before;  // key, value, source
  for (const auto& [key, value] : settings) {
    const auto* option = table.find(key);
    before.push_back({option->key(), option->plain(), option->source});
  }
  set(table, settings);
  auto out = write(configured);
  // Restores the options, so that one trial leaves nothing for the next. Goes backwards: the first
  // entry of a key that was set twice has the original value.
  for (auto it = before.rbegin(); it != before.rend(); ++it) {
    const auto& [key, value, source] = *it;
    table.set(key, value, source);
  }
  return out;
}

std::string TrialFolder::write(Configured& configured, const parallel::Parallelism& split) const {
  return write(configured, settings_of_run(split, configured.table));
}

std::string TrialFolder::write(const Configured& configured) const {
  const auto file = folder_.path() / "run.toml";
  write_file(file, configured.table.to_toml());
  return file.string();
}

}  // namespace convoy::cli
