#include "convoy/train/state.h"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/base/json_number.h"
#include "convoy/base/json_value.h"
#include "convoy/optim/optimizer.h"
#include "convoy/train/run_sums.h"

namespace convoy::train {

namespace {

/// Visits every key that resuming reads, with its value.
template <class State, class Visit>
void visit_fields(State& s, Visit&& visit) {
  visit("global_step", s.global_step);
  visit("max_steps", s.max_steps);
  visit("num_train_epochs", s.num_train_epochs);
  visit("epoch_index", s.epoch_index);
  visit("epoch_position", s.epoch_position);
  visit("num_rows", s.num_rows);
  visit("step_samples", s.step_samples);
  visit("data_seed", s.data_seed);
  visit("data_order", s.data_order);
  visit("job_id", s.job_id);
  visit("logged_loss_sum", s.logged_loss_sum);
  visit("logged_steps", s.logged_steps);
  visit("total_loss_sum", s.total_loss_sum);
  visit("loss_scale", s.loss_scale.value);
  visit("loss_scale_good_steps", s.loss_scale.good_steps);
  visit("targets_per_sample", s.loss_scale.targets_per_sample);
  visit("skipped_steps", s.skipped_steps);
  visit("best_global_step", s.best_step);
  visit("best_metric_name", s.best_metric_name);
  visit("evaluations_without_better", s.evaluations_without_better);
  visit("evaluation_owed", s.evaluation_owed);
  visit("log_history", s.log_history);
}

[[noreturn]] void refuse(const std::string& where, const char* key, const std::string& value,
                         const std::string& expected) {
  fail<FileError>("train", "{} is not a state that training can resume from: {} = {}; expected {}",
                  where, key, value, expected);
}

uint64_t sum_from(const std::string& text, const std::string& where) {
  uint64_t sum = 0;
  const auto* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, sum, 16);
  if (error == std::errc() && at == end) return sum;
  refuse(where, "rows_sum", text, "hexadecimal digits");
}

/// Throws FileError for numbers that no run saves, with which a damaged state would train on.
void check_makes_sense(const TrainerState& s, const std::string& where) {
  constexpr double kAny = std::numeric_limits<double>::max();
  const auto check = [&](const char* key, double value, double most) {
    if (value >= 0 && value <= most) return;
    refuse(where, key, fmt::format("{}", value),
           most < kAny ? fmt::format("0 to {}", most) : "0 or more");
  };
  const auto steps = static_cast<double>(s.global_step);
  check("max_steps", static_cast<double>(s.max_steps), kAny);
  check("global_step", steps, kAny);
  check("num_train_epochs", s.num_train_epochs, kAny);
  check("epoch_index", static_cast<double>(s.epoch_index), kAny);
  check("num_rows", static_cast<double>(s.num_rows), kAny);
  // Whole row groups of unequal ranks leave holes: a position may lie beyond the number of rows.
  check("epoch_position", static_cast<double>(s.epoch_position), kAny);
  check("step_samples", static_cast<double>(s.step_samples), kAny);
  check("logged_steps", static_cast<double>(s.logged_steps), steps);
  check("skipped_steps", static_cast<double>(s.skipped_steps), steps);
  check("steps_without_targets", static_cast<double>(s.steps_without_targets), steps);
  check("last_step_position", static_cast<double>(s.last_step_position), kAny);
  check("micro_batch_rows", static_cast<double>(s.micro_batch_rows), kAny);
  check("job_began", s.job_began, kAny);
  check("useful_seconds", s.useful_seconds, kAny);
  check("save_seconds", s.save_seconds, kAny);
  check("earlier_updates", static_cast<double>(s.earlier_updates), kAny);
  check("loss_scale", s.loss_scale.value, kAny);
  check("loss_scale_good_steps", static_cast<double>(s.loss_scale.good_steps), kAny);
  check("targets_per_sample", s.loss_scale.targets_per_sample, kAny);
  check("best_global_step", static_cast<double>(std::max<int64_t>(0, s.best_step)), steps);
  check("evaluations_without_better", static_cast<double>(s.evaluations_without_better), kAny);
}

/// Text of an entry of a history without its times.
std::string without_times(const Json& entry) {
  Json out = Json::object();
  for (const auto& [key, value] : entry.items()) {
    if (!key.ends_with("_runtime") && !key.ends_with("_per_second")) out[key] = value;
  }
  return out.dump();  // null for what is not finite, as in a file
}

}  // namespace

bool begins_with(const Json& history, const Json& beginning) {
  if (beginning.size() > history.size()) return false;
  for (size_t i = 0; i < beginning.size(); ++i) {
    const auto& a = history[i];
    const auto& b = beginning[i];
    if (a != b && without_times(a) != without_times(b)) return false;
  }
  return true;
}

Json TrainerState::to_json() const {
  // Hugging Face's keys; null says that there is none yet.
  Json out{{"epoch", epoch()},
           {"best_metric", best_step < 0 ? Json() : Json(best_metric)},
           {"best_model_checkpoint",
            best_model_checkpoint.empty() ? Json() : Json(best_model_checkpoint)},
           {"encoding", encoding},
           {"optimizer", optimizer},
           {"is_local_process_zero", true},
           {"is_world_process_zero", true}};
  visit_fields(*this, [&](const char* key, const auto& value) { out[key] = value; });
  if (rows_sum != 0) out["rows_sum"] = sum_text(rows_sum);
  if (first_rows_sum != 0) out["first_rows_sum"] = sum_text(first_rows_sum);
  if (!base_sum.empty()) out["base_sum"] = base_sum;
  if (logged_steps > 0) out["last_grad_norm"] = last_grad_norm;
  if (!logged_metrics.empty()) out["logged_metrics"] = logged_metrics;
  if (earlier_updates > 0) out["earlier_updates"] = earlier_updates;
  if (steps_beyond != 0) out["steps_beyond"] = steps_beyond;
  if (!lineage.empty()) out["lineage"] = checkpoint::to_json(lineage);
  if (last_step_position >= num_rows) out["last_step_position"] = last_step_position;
  if (steps_without_targets > 0) out["steps_without_targets"] = steps_without_targets;
  if (micro_batch_rows > 0) out["micro_batch_rows"] = micro_batch_rows;
  if (save_seconds > 0) out["save_seconds"] = save_seconds;
  if (job_began > 0) {
    out["useful_seconds"] = useful_seconds;
    out["job_began"] = job_began;
  }
  return out;
}

TrainerState TrainerState::from_json(const Json& json, const std::string& where) {
  TrainerState state;
  try {
    const auto read = [&](const char* key, auto& value) {
      using Value = std::decay_t<decltype(value)>;
      const Json& said = json.at(key);
      if constexpr (std::integral<Value> && !std::same_as<Value, bool>) {
        const auto whole = whole_number<Value>(said);
        if (!whole) refuse(where, key, said.dump(), "a whole number");
        value = *whole;
      } else {
        read_value(said, value);
      }
    };
    const auto read_if_there = [&](const char* key, auto& value) {
      if (json.contains(key)) read(key, value);
    };
    visit_fields(state, read);
    if (const auto norm = json.find("last_grad_norm"); norm != json.end() && norm->is_number()) {
      state.last_grad_norm = norm->get<double>();
    }
    read_if_there("logged_metrics", state.logged_metrics);
    read_if_there("earlier_updates", state.earlier_updates);
    read_if_there("steps_beyond", state.steps_beyond);
    state.lineage = checkpoint::lineage_from_json(json.value("lineage", Json::array()));
    read_if_there("last_step_position", state.last_step_position);
    read_if_there("steps_without_targets", state.steps_without_targets);
    read_if_there("micro_batch_rows", state.micro_batch_rows);
    read_if_there("useful_seconds", state.useful_seconds);
    read_if_there("save_seconds", state.save_seconds);
    read_if_there("job_began", state.job_began);
    if (json.contains("rows_sum")) state.rows_sum = sum_from(json.at("rows_sum"), where);
    if (json.contains("first_rows_sum")) {
      state.first_rows_sum = sum_from(json.at("first_rows_sum"), where);
    }
    read_if_there("base_sum", state.base_sum);
    state.encoding = json.value("encoding", "");
    state.optimizer = json.value("optimizer", optim::kDefaultOptimizer);  // older: there was one
    if (state.best_step >= 0) read_value(json.at("best_metric"), state.best_metric);
    const auto& saved = json.at("best_model_checkpoint");
    if (!saved.is_null()) read_value(saved, state.best_model_checkpoint);
  } catch (const Json::exception& error) {
    fail<FileError>("train", "{} is not a state that training can resume from: {}", where,
                    json_trouble(error));
  }
  check_makes_sense(state, where);
  return state;
}

}  // namespace convoy::train
