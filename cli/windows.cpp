#include "cli/windows.h"

#include <filesystem>
#include <map>

#include "cli/train_run.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/comm/agree.h"
#include "convoy/report/chart.h"
#include "convoy/report/progress_output.h"

namespace convoy::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* kResults = "results_over_time.json";
constexpr const char* kPicture = "results_over_time.svg";

/// One object for each window that was done with: trained_on, evaluated_on, metrics.
using Results = std::vector<Json>;

/// Those that an earlier start left, as far as they are the first of `windows`.
Results earlier_results(const fs::path& folder, const std::vector<tasks::Window>& windows) {
  Results out;
  const auto file = folder / kResults;
  if (!fs::exists(file)) return out;
  const auto known = parse_json(read_file(file), file.string());
  for (const auto& result : known.at("windows")) {
    const bool same = out.size() < windows.size() &&
                      result.at("trained_on") == windows[out.size()].name &&
                      result.at("evaluated_on") == windows[out.size()].evaluated_on;
    if (!same) break;
    out.push_back(result);
  }
  return out;
}

std::map<std::string, double> averages(const Results& results) {
  std::map<std::string, double> sums;
  for (const auto& result : results) {
    for (const auto& [name, value] : result.at("metrics").items()) {
      sums[name] += value.get<double>() / static_cast<double>(results.size());
    }
  }
  return sums;
}

std::string picture(const Results& results, const std::vector<std::string>& metrics) {
  report::LineChart chart{.title = "Trained on one window, evaluated on the next",
                          .x_title = "window that was evaluated on",
                          .y_title = "metric"};
  for (const auto& metric : metrics) {
    report::Series series{.name = metric};
    for (const auto& result : results) {
      double window = 0;
      parse_number(result.at("evaluated_on").get<std::string>(), window);
      series.x.push_back(window);
      series.y.push_back(result.at("metrics").value("eval_" + metric, 0.0));
    }
    chart.series.push_back(std::move(series));
  }
  return report::line_chart(chart);
}

void write_results(const fs::path& folder, const Results& results,
                   const std::vector<std::string>& metrics) {
  const Json all{{"windows", results}, {"average", averages(results)}};
  write_file(folder / kResults, all.dump(2) + "\n");
  write_file(folder / kPicture, picture(results, metrics));
}

std::string told(const std::map<std::string, double>& values,
                 const std::vector<std::string>& metrics) {
  std::vector<std::string> parts;
  for (const auto& metric : metrics) {
    if (const auto value = values.find("eval_" + metric); value != values.end()) {
      parts.push_back(fmt::format("{} {:.4f}", metric, value->second));
    }
  }
  return join(parts);
}

/// How a window is started: with what is in its folder, or anew.
void set_start(Configured& configured, const fs::path& folder, bool resumes,
               const train::Job& job) {
  auto& arguments = configured.training;
  const Json found = comm::ask_main(job.world(), "look for a window's checkpoint", [&]() -> Json {
    return resumes && checkpoint::latest_checkpoint(folder).has_value();
  });
  arguments.resume_from_checkpoint = found.get<bool>() ? "latest" : "";
  if (resumes) arguments.output.overwrite = !found.get<bool>();  // what never saved
}

/// The checkpoint of the last step of the run in `folder`.
fs::path last_checkpoint(const fs::path& folder, const train::Job& job) {
  const Json found = comm::ask_main(job.world(), "look for the moments of a window", [&]() -> Json {
    const auto step_of = [](const fs::path& place) {
      const auto file = place / checkpoint::kState;
      return parse_json(read_file(file), file.string()).at("global_step").get<int64_t>();
    };
    const auto last = checkpoint::latest_checkpoint(folder);
    if (last && step_of(*last) == step_of(folder)) return last->string();
    fail<FileError>("cli",
                    "{} has no checkpoint of its last step, which keep_moments goes on from; try "
                    "--start {} for a run of its own, or without --keep_moments",
                    folder.string(), folder.filename().string());
  });
  return found.get<std::string>();
}

}  // namespace

void check_windows(const Configured& configured, const std::vector<tasks::Window>& windows) {
  if (configured.training.output.dir.empty()) {
    fail<UsageError>("cli",
                     "each window is trained in a folder of output.dir, which is not given; "
                     "try --output_dir DIR");
  }
  const auto& from = configured.training.resume_from_checkpoint;
  if (!from.empty() && from != "latest" && from != "true" && from != "false") {
    fail<UsageError>("cli",
                     "resume_from_checkpoint = {} does not go with windows, of which the last one "
                     "goes on; try --resume_from_checkpoint latest",
                     from);
  }
  if (windows.front().keeps_moments && configured.training.save_strategy == "no") {
    fail<UsageError>("cli",
                     "keep_moments takes them from the last checkpoint of each window, which "
                     "save_strategy = no does not write; try --save_strategy epoch");
  }
  if (configured.training.parallel.strategy != "plan") return;
  fail<UsageError>("cli",
                   "strategy = plan does not go with windows; try the strategy that convoy "
                   "plan finds for one of them");
}

int train_windows(Configured& configured, const std::vector<tasks::Window>& windows,
                  const train::Job& job) {
  const fs::path base = configured.training.output.dir;
  const auto& from = configured.training.resume_from_checkpoint;
  const bool started_again = job.environment.restart_count > 0;
  const bool resumes = (!from.empty() && from != "false") || started_again;
  const auto metrics = configured.task->main_metrics();
  const bool tells = job.is_main() && !configured.training.output.quiet;
  const Json earlier = comm::ask_main(job.world(), "read results over time", [&]() -> Json {
    return Json(resumes ? earlier_results(base, windows) : Results());
  });
  auto results = earlier.get<Results>();
  fs::path before;
  for (size_t i = 0; i < windows.size(); ++i) {
    const auto& window = windows[i];
    const auto folder = base / window.name;
    if (i >= results.size()) {
      configured.table.reset(window.defaults);
      for (const auto& [key, value] : window.options) {
        configured.table.set(key, value, "data.windows");
      }
      configured.training.output.dir = folder.string();
      set_start(configured, folder, resumes, job);
      if (tells) {
        report::show_progress(fmt::format("window {} of {}: train on {}, evaluate on {}\n", i + 1,
                                          windows.size(), window.name, window.evaluated_on));
      }
      Start start{.weights = before, .moments = {}};
      if (window.keeps_moments && !before.empty()) start.moments = last_checkpoint(before, job);
      const auto trained = train_run(configured, job, start, "");
      if (trained.exit_code != 0) return trained.exit_code;
      results.push_back({{"trained_on", window.name},
                         {"evaluated_on", window.evaluated_on},
                         {"metrics", trained.evaluated}});
      comm::ask_main(job.world(), "write results over time", [&] {
        write_results(base, results, metrics);
        return Json();
      });
    }
    before = folder;
  }
  if (!tells) return 0;
  for (const auto& result : results) {
    report::show_progress(
        fmt::format("  {} to {}: {}\n", result.at("trained_on").get<std::string>(),
                    result.at("evaluated_on").get<std::string>(),
                    told(result.at("metrics").get<std::map<std::string, double>>(), metrics)));
  }
  report::show_progress(fmt::format("  average: {}; all of them: {}\n",
                                    told(averages(results), metrics), (base / kResults).string()));
  return 0;
}

}  // namespace convoy::cli
