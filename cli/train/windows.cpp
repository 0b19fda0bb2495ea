#include "cli/train/windows.h"

#include <cmath>
#include <filesystem>
#include <map>

#include "cli/train/kept_run.h"
#include "cli/train/train_run.h"
#include "cli/train/window_folders.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/comm/agree.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/job/job_id.h"
#include "convoy/report/chart.h"
#include "convoy/report/progress_output.h"
#include "convoy/tasks/metrics_table.h"
#include "convoy/train/callback.h"
#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/scorer.h"

namespace convoy::cli {

namespace fs = std::filesystem;

namespace {

/// Means over the windows that have a metric; of standard errors, those of the means.
std::map<std::string, double> averages(const Results& results) {
  std::map<std::string, double> out, counts;
  for (const auto& result : results) {
    for (const auto& [name, number] : train::metrics_from_json(result.at("metrics"))) {
      out[name] += name.ends_with(train::kStandardError) ? number * number : number;
      ++counts[name];
    }
  }
  // An average is as sure as all of its parts.
  std::erase_if(out, [&](const auto& metric) {
    return metric.first.ends_with(train::kStandardError) &&
           counts[metric.first] < static_cast<double>(results.size());
  });
  for (auto& [name, value] : out) {
    value = (name.ends_with(train::kStandardError) ? std::sqrt(value) : value) / counts[name];
  }
  return out;
}

std::string picture(const Results& results, const std::vector<std::string>& metrics) {
  report::LineChart chart{.title = "Trained on one window, evaluated on the next",
                          .x_title = "window that was evaluated on",
                          .y_title = "metric"};
  for (const auto& metric : metrics) {
    report::Series series{.name = metric};
    for (const auto& result : results) {
      const auto found = train::metrics_from_json(result.at("metrics"));
      const auto value = found.find("eval_" + metric);
      if (value == found.end() || !std::isfinite(value->second)) continue;
      double window = 0;
      parse_number(result.at("evaluated_on").get<std::string>(), window);
      series.x.push_back(window);
      series.y.push_back(value->second);
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

/// Sets whether a window resumes from its folder or starts anew.
void set_start(Configured& configured, const fs::path& folder, const Beginning& beginning,
               const job::Job& job) {
  auto& arguments = configured.training;
  const bool resumes = beginning.resumes();
  const Json found = comm::ask_main(job.world(), "look for a window's checkpoint",
                                    [&]() -> Json { return beginning.goes_on(folder); });
  arguments.resume_from_checkpoint = found.get<bool>() ? "latest" : "";
  if (resumes) arguments.output.overwrite = !found.get<bool>();  // what never saved
}

/// Returns the checkpoint of the last step of the run in `folder`.
fs::path last_checkpoint(const fs::path& folder, const job::Job& job) {
  const Json found = comm::ask_main(job.world(), "look for the moments of a window", [&]() -> Json {
    if (const auto last = checkpoint_of_end(folder)) return last->string();
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
  const auto from = train::resume_source(configured.training);
  if (!from.empty() && from != "latest") {
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
  if (configured.training.stop_steps > 0) {
    fail<UsageError>("cli",
                     "stop_steps = {:g} does not go with windows, each of which is trained whole "
                     "before the next; try --end for fewer windows",
                     configured.training.stop_steps);
  }
  if (configured.training.parallel.strategy != "plan") return;
  fail<UsageError>("cli",
                   "strategy = plan does not go with windows; try the strategy that convoy "
                   "plan finds for one of them");
}

int train_windows(Configured& configured, const std::vector<tasks::Window>& windows,
                  const job::Job& job) {
  const fs::path base = configured.training.output.dir;
  const Beginning beginning{train::resumes(configured.training), job.environment.restart_count > 0,
                            job.environment.job_id};
  const auto metrics = configured.task->main_metrics();
  const bool tells = job.is_main() && !configured.training.output.quiet;
  FolderLock lock;
  const Json earlier = comm::ask_main(job.world(), "read results over time", [&]() -> Json {
    lock = job::lock_output_folder(base, job, configured.training.parallel);
    check_folders(base, windows, beginning, configured);
    if (beginning.resumes()) return Json(earlier_results(base, windows));
    std::error_code ignored;
    for (const char* file : {kResults, kPicture}) fs::remove(base / file, ignored);
    return Json(Results());
  });
  auto results = earlier.get<Results>();
  if (job.is_main()) tell(notes_of_done(base, windows, results.size(), configured.table));
  fs::path before;
  for (size_t i = 0; i < windows.size(); ++i) {
    const auto& window = windows[i];
    const auto folder = base / window.name;
    if (beginning.resumes() && !before.empty()) {
      comm::ask_main(job.world(), "look at a window's beginning", [&] {
        check_weights_sum(folder, before);
        return Json();
      });
    }
    if (i >= results.size()) {
      configured.table.reset(window.defaults);
      for (const auto& [key, value] : window.options) {
        configured.table.set(key, value, "data.windows");
      }
      configured.training.output.dir = folder.string();
      set_start(configured, folder, beginning, job);
      if (job.is_main() && !window.note.empty()) tell({window.note});
      if (tells) {
        report::show_progress(fmt::format("window {} of {}: train on {}, evaluate on {}\n", i + 1,
                                          windows.size(), window.name, window.evaluated_on));
      }
      Start start{.weights = before, .moments = {}, .texts = {}};
      if (job.is_main()) start.texts[kWindow] = window_note(before);
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
    const auto values = train::metrics_from_json(result.at("metrics"));
    const auto rows = values.find("eval_samples");
    report::show_progress(
        fmt::format("  {} to {}{}: {}\n", result.at("trained_on").get<std::string>(),
                    result.at("evaluated_on").get<std::string>(),
                    rows == values.end()
                        ? ""
                        : fmt::format(", {}", plural(static_cast<int64_t>(rows->second), "row")),
                    told(values, metrics)));
  }
  const auto title = fmt::format("average of {}{}", plural(std::ssize(results), "window"),
                                 results.size() > 1 ? ", each of which counts alike" : "");
  report::show_progress(tasks::evaluation_text(title, averages(results)));
  report::show_progress(fmt::format("  all of them: {}\n", (base / kResults).string()));
  return 0;
}

}  // namespace convoy::cli
