#include "convoy/conformance/run_log.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <optional>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/options.h"
#include "convoy/base/text.h"

namespace convoy::conformance {

namespace {

namespace fs = std::filesystem;

/// Returns a number of the log; NaN for null, as JSON has no NaN.
double number_of(const Json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

/// Adds a value, and removes those of later steps, which a run that went back has made again.
template <class Value>
void enter(std::map<int64_t, Value>& series, int64_t step, Value value) {
  series.erase(series.lower_bound(step), series.end());
  series.emplace(step, std::move(value));
}

/// Removes the values of steps after `step`, from which a run was resumed.
void cut(RunLog& log, int64_t step) {
  const auto shorten = [&](auto& series) { series.erase(series.upper_bound(step), series.end()); };
  shorten(log.losses);
  shorten(log.grad_norms);
  shorten(log.evaluations);
  shorten(log.rows_sums);
  shorten(log.weight_sums);
  if (log.losses.empty()) log.first_step = step;
}

void enter(RunLog& log, const Json& line) {
  if (const auto start = line.find("start"); start != line.end() && start->is_object()) {
    const auto number = [&](const char* key) {
      const auto value = start->find(key);
      return value != start->end() && value->is_number_integer() ? value->get<int64_t>() : 0;
    };
    log.max_steps = number("max_steps");
    cut(log, number("first_step"));
    return;
  }
  const auto found = line.find("step");
  if (found == line.end() || !found->is_number_integer()) return;
  const int64_t step = *found;
  if (line.contains("loss")) enter(log.losses, step, number_of(line["loss"]));
  if (line.contains("grad_norm")) enter(log.grad_norms, step, number_of(line["grad_norm"]));
  if (line.contains("rows_sum")) enter(log.rows_sums, step, text_of(line, "rows_sum"));
  if (line.contains("weight_sums") && line["weight_sums"].is_object()) {
    std::map<std::string, std::string> sums;
    for (const auto& [name, sum] : line["weight_sums"].items()) {
      if (sum.is_string()) sums[name] = sum.get<std::string>();
    }
    enter(log.weight_sums, step, std::move(sums));
  }
  std::map<std::string, double> metrics;
  for (const auto& [name, value] : line.items()) {
    const bool is_time = name.ends_with("runtime") || name.ends_with("per_second");
    if (name.starts_with("eval_") && !is_time) metrics[name] = number_of(value);
  }
  if (!metrics.empty()) enter(log.evaluations, step, std::move(metrics));
}

std::optional<Json> parsed(const std::string& line) try {
  return parse_json(line, "");
} catch (const FileError&) {  // a host that died left it in parts
  return std::nullopt;
}

}  // namespace

bool RunLog::half_precision() const {
  for (const char* name : {"train.bf16", "train.fp16"}) {
    if (const auto found = options.find(name); found != options.end() && found->second == "true") {
      return true;
    }
  }
  return false;
}

int64_t RunLog::first_of(int64_t step) const {
  const auto found = losses.find(step);
  return 1 + (found == losses.begin() ? first_step : std::prev(found)->first);
}

RunLog read_run_log(const fs::path& folder, const fs::path& run_toml) {
  RunLog out;
  out.folder = folder.string();
  const auto file = folder / "log.jsonl";
  std::error_code error;
  if (!fs::is_regular_file(file, error)) {
    fail<FileError>("conformance", "{} is no output folder of a training: it has no log.jsonl",
                    folder.string());
  }
  for (const auto& line : split(read_file(file), '\n')) {
    const auto json = line.empty() ? std::nullopt : parsed(line);
    if (json && json->is_object()) enter(out, *json);
  }
  if (out.losses.empty()) {
    fail<FileError>("conformance",
                    "{} logs no step; a training that is compared has logged one: try a smaller "
                    "--logging_steps",
                    file.string());
  }
  if (!run_toml.empty()) out.options = toml_values(run_toml);
  return out;
}

}  // namespace convoy::conformance
