#include "convoy/report/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/metric_direction.h"
#include "convoy/base/options.h"
#include "convoy/base/text.h"

namespace convoy::report {

namespace {

namespace fs = std::filesystem;

// run_page.html as a raw string.
constexpr std::string_view kPage =
#include <report/run_page_html.h>
    ;
constexpr std::string_view kData = "/*DATA*/";
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMostSteps = 50'000;  // a browser draws them at once

/// Parses an object of a line; null for an incomplete one, as the last of a run in progress may be.
Json object_of(const std::string& line) try {
  auto json = parse_json(line, "a line");
  return json.is_object() ? json : Json();
} catch (const FileError&) {
  return {};
}

bool is_of_evaluation(const std::string& key) {
  return key.starts_with("eval_");
}

/// Removes the steps of the log from that of `line` on, which a run that resumed from a checkpoint
/// makes again. A step may have a line of its training and one of an evaluation.
void take_back(RunRecord& run, double step, const Json& line) {
  const auto of_evaluation = [&](size_t at) {
    return std::any_of(run.columns.begin(), run.columns.end(), [&](const auto& column) {
      const auto& [key, values] = column;
      return is_of_evaluation(key) && at < values.size() && !std::isnan(values[at]);
    });
  };
  const bool evaluation =
      std::any_of(line.items().begin(), line.items().end(),
                  [](const auto& item) { return is_of_evaluation(item.key()); });
  size_t kept = run.steps.size();
  while (kept > 0 && run.steps[kept - 1] > step) --kept;
  const bool again = kept < run.steps.size();
  for (size_t at = kept; at-- > 0 && run.steps[at] == step;) {
    // An evaluation that a stopped run owed comes after steps that were lost, and its step stays.
    if ((again && !evaluation) || of_evaluation(at) == evaluation) kept = at;
  }
  run.steps.resize(kept);
  for (auto& [name, values] : run.columns) values.resize(std::min(values.size(), kept));
}

/// Takes the numbers of an object as results of the run.
void take_numbers(RunRecord& run, const Json& object) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) {
    if (value.is_number()) run.results[key] = value.get<double>();
  }
}

void add_line(RunRecord& run, const Json& line) {
  if (line.contains("message")) {
    run.messages.push_back(text_of(line, "message"));
    return;
  }
  if (const auto start = line.find("start"); start != line.end()) {
    run.start = *start;
    return;
  }
  const auto step = line.find("step");
  if (step == line.end() || !step->is_number()) {  // the summary at the end
    take_numbers(run, line);
    // A run that was resumed after its end has a summary for each time.
    if (const auto seconds = line.find("train_runtime");
        seconds != line.end() && seconds->is_number()) {
      run.results["runtime_of_all_starts"] += seconds->get<double>();
    }
    run.ended = true;
    return;
  }
  run.ended = false;
  take_back(run, step->get<double>(), line);
  run.steps.push_back(step->get<double>());
  for (const auto& [key, value] : line.items()) {
    if (key == "step" || !value.is_number()) continue;
    auto& column = run.columns[key];
    column.resize(run.steps.size() - 1, kNothing);
    column.push_back(value.get<double>());
    if (key.starts_with("eval_")) run.results[key] = value.get<double>();
  }
}

/// plan.json of the last checkpoint that has one.
Json plan_of(const std::vector<fs::path>& checkpoints) {
  std::error_code ignored;
  for (auto each = checkpoints.rbegin(); each != checkpoints.rend(); ++each) {
    const auto file = *each / "plan.json";
    if (fs::exists(file, ignored)) return object_of(read_file(file));
  }
  return {};
}

/// Means of each `stretch` values, of those that are numbers.
std::vector<double> means(const std::vector<double>& values, size_t stretch) {
  std::vector<double> out;
  for (size_t begin = 0; begin < values.size(); begin += stretch) {
    double sum = 0;
    int64_t count = 0;
    for (size_t i = begin; i < std::min(begin + stretch, values.size()); ++i) {
      if (std::isnan(values[i])) continue;
      sum += values[i];
      ++count;
    }
    out.push_back(count == 0 ? kNothing : sum / static_cast<double>(count));
  }
  return out;
}

Json numbers(const std::vector<double>& values, size_t size) {
  Json out = Json::array();
  for (size_t i = 0; i < size; ++i) {
    const double value = i < values.size() ? values[i] : kNothing;
    // Seven digits are more than a screen shows, and less than a double writes.
    out.push_back(std::isfinite(value)
                      ? Json(std::strtod(fmt::format("{:.7g}", value).c_str(), nullptr))
                      : Json());
  }
  return out;
}

Json json_of(const RunRecord& run) {
  Json columns = Json::object(), results = Json::object();
  for (const auto& [name, values] : run.columns) columns[name] = numbers(values, run.steps.size());
  for (const auto& [name, value] : run.results) results[name] = value;
  return {{"name", run.name},          {"options", run.options}, {"columns", columns},
          {"steps", run.steps},        {"results", results},     {"messages", run.messages},
          {"ended", run.ended},        {"plan", run.plan},       {"start", run.start},
          {"over_time", run.over_time}};
}

Json json_of(const std::vector<CollectivesOfSize>& collectives) {
  Json out = Json::array();
  for (const auto& size : collectives) {
    out.push_back({{"most_bytes", size.most_bytes},
                   {"per_step", size.per_step},
                   {"bytes", size.bytes_per_step},
                   {"seconds", size.seconds_per_step}});
  }
  return out;
}

/// Takes options, start, time and memory from the windows' folders, which the folder of a run over
/// windows does not have.
void take_windows(RunRecord& run, const fs::path& folder) {
  if (!run.over_time.is_object() || !run.over_time.contains("windows")) return;
  for (const auto& window : run.over_time.at("windows")) {
    const auto of = folder / text_of(window, "trained_on");
    if (!fs::exists(of / "log.jsonl") || !fs::exists(of / "run.toml")) continue;
    const auto one = read_run(of);
    if (run.options.empty()) run.options = one.options;
    if (run.start.is_null()) run.start = one.start;
    for (const char* name : {"runtime_of_all_starts", "train_runtime"}) {
      if (one.results.contains(name)) run.results[name] += one.results.at(name);
    }
    for (const char* name : {"peak_memory_bytes_per_rank", "peak_device_memory_bytes_per_rank"}) {
      if (!one.results.contains(name)) continue;
      run.results[name] = std::max(run.results[name], one.results.at(name));
    }
  }
  if (const auto file = run.options.find("data.train"); file != run.options.end()) {
    run.options["data.windows"] = fs::path(file->second).parent_path().parent_path().string();
    for (const char* of_one : {"data.train", "data.valid", "output.dir"}) run.options.erase(of_one);
  }
}

}  // namespace

RunRecord read_run(const fs::path& folder, const std::vector<fs::path>& checkpoints) {
  RunRecord run;
  run.folder = folder.lexically_normal().string();
  run.name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  const auto log = folder / "log.jsonl", options = folder / "run.toml",
             results = folder / "all_results.json", over_time = folder / "results_over_time.json";
  if (fs::exists(over_time)) run.over_time = object_of(read_file(over_time));
  if (!fs::exists(log) && !fs::exists(options) && run.over_time.is_null()) {
    fail<FileError>("report",
                    "{} is no output folder of a run: it has neither log.jsonl nor run.toml",
                    folder.string());
  }
  run.options = toml_values(options);
  // A run that goes on after its end has results of the model before.
  run.ended = fs::exists(results);
  if (fs::exists(log)) {
    LineReader lines(log, "an object a line");
    int64_t unread = 0;
    for (std::string line; lines.next(line);) {
      const auto json = object_of(line);
      if (!json.is_null()) add_line(run, json);
      if (json.is_null() && lines.ended()) ++unread;
    }
    if (unread > 0) {
      run.messages.push_back(fmt::format("{} of log.jsonl made no sense", plural(unread, "line")));
    }
  }
  thin_out(run, kMostSteps);
  run.ended = run.ended && fs::exists(results);
  if (run.ended) {
    const auto found = object_of(read_file(results));
    if (found.is_null()) run.messages.push_back("all_results.json made no sense");
    take_numbers(run, found);
  }
  if (run.over_time.is_object() && run.over_time.contains("average")) {
    take_numbers(run, run.over_time.at("average"));
    take_windows(run, folder);
    run.ended = true;
  }
  run.plan = plan_of(checkpoints);
  return run;
}

void thin_out(RunRecord& run, size_t most) {
  const size_t stretch = (run.steps.size() + most - 1) / most;
  if (stretch <= 1) return;
  for (auto& [name, values] : run.columns) values = means(values, stretch);
  std::vector<double> steps;
  for (size_t end = stretch; end < run.steps.size() + stretch; end += stretch) {
    steps.push_back(run.steps[std::min(end, run.steps.size()) - 1]);
  }
  run.messages.push_back(fmt::format("the log has {} steps: shown are means of {} neighbours",
                                     run.steps.size(), stretch));
  run.steps = std::move(steps);
}

std::string run_page(const std::vector<RunRecord>& runs, const PageExtras& extras) {
  Json data{{"runs", Json::array()},
            {"picture", extras.picture},
            {"collectives", json_of(extras.collectives)}};
  auto& directions = data["greater_is_better"] = Json::object();  // of metrics that tell
  for (const auto& run : runs) {
    data["runs"].push_back(json_of(run));
    for (const auto& [name, value] : run.results) {
      if (const auto greater = greater_is_better(name)) directions[name] = *greater;
    }
  }
  const auto text = json_line(data);
  std::string page(kPage.substr(0, kPage.find(kData)));
  page.reserve(kPage.size() + text.size());
  for (size_t i = 0; i < text.size(); ++i) {  // nothing in it ends the script
    page += text[i];
    if (text[i] == '<') page.replace(page.size() - 1, 1, "\\u003c");
  }
  page += kPage.substr(kPage.find(kData) + kData.size());
  return page;
}

}  // namespace convoy::report
