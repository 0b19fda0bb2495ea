#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "cli/commands.h"
#include "cli/program.h"
#include "cli/tune/trainings.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/folder_lock.h"
#include "convoy/base/metric_direction.h"
#include "convoy/base/text.h"
#include "convoy/launch/environment.h"
#include "convoy/launch/stop_signal.h"
#include "convoy/report/progress_output.h"
#include "convoy/trials/halving.h"
#include "convoy/trials/table.h"

namespace convoy::cli {

namespace {

namespace fs = std::filesystem;

struct TuneOptions {
  std::string config;
  int64_t trials = 20;
  std::vector<std::string> tried;
  int64_t rungs = 3;
  int64_t reduction = 3;
  int64_t jobs = 1;
  int64_t nproc = 1;
};

constexpr int64_t kMostTrials = 10'000;
constexpr const char* kTrialsFile = "trials.json";

/// Dimensions by the options' keys. Throws UsageError for one that is none of the run.
std::vector<trials::Dimension> dimensions_of(const TuneOptions& options,
                                             const Configured& configured) {
  std::vector<trials::Dimension> out;
  const auto usual = configured.task->usual_trials(configured.training);
  for (const auto& text : options.tried.empty() ? usual : options.tried) {
    auto dimension = trials::parse_dimension(text);
    const auto* option = configured.table.find(dimension.option);
    if (option == nullptr) {
      fail<UsageError>("cli", "--try {}: the run has no option '{}'{}", text, dimension.option,
                       configured.table.suggest(dimension.option));
    }
    dimension.option = option->key();
    if (option->section == "output" || dimension.option == "train.stop_steps") {
      fail<UsageError>("cli", "--try {}: the search sets {} itself; try another option", text,
                       option->name);
    }
    const bool twice = std::ranges::count(out, dimension.option, &trials::Dimension::option) > 0;
    if (twice) fail<UsageError>("cli", "--try has {} twice; expected it once", option->name);
    out.push_back(std::move(dimension));
  }
  return out;
}

/// Trials of the search. Trial 0 has the run's own options, the others are drawn.
std::vector<trials::Trial> make_trials(const TuneOptions& options, const Configured& configured) {
  const auto dimensions = dimensions_of(options, configured);
  trials::Options own;
  for (const auto& dimension : dimensions) {
    const auto value = configured.table.find(dimension.option)->plain();
    own[dimension.option] = trials::spelled(dimension, value);
  }
  std::vector<trials::Trial> out{{own}};
  const auto seed = static_cast<uint64_t>(configured.training.seed);
  for (auto& drawn : trials::draw(dimensions, options.trials - 1, seed, own)) {
    out.push_back({std::move(drawn)});
  }
  return out;
}

/// Sizes and times of files, which show that a file was replaced.
Json status_of(const std::vector<std::string>& files) {
  Json out = Json::array();
  for (const auto& file : files) {
    struct stat status = {};
    if (file.empty() || ::stat(file.c_str(), &status) != 0) continue;
    out.push_back({file, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec});
  }
  return out;
}

/// Options of a trial that decide its model and its data.
trials::Options of_model(const trials::Options& options) {
  auto out = options;
  std::erase_if(out, [](const auto& option) {
    return !option.first.starts_with("model.") && !option.first.starts_with("data.");
  });
  return out;
}

/// Throws UsageError for a trial whose options do not fit together or to the data, before any
/// trains. Each model is made once, which reads the data. Returns size and time of the data's
/// files.
Json check_trials(const TuneOptions& options, const std::vector<trials::Trial>& all) {
  std::set<trials::Options> made;
  Json data = Json::array();
  for (const auto& trial : all) {
    try {
      const auto configured = read_config(options.config, flags_of(trial.options));
      bool evaluates = true;
      if (made.insert(of_model(trial.options)).second) {
        auto parallel = configured->training.parallel;
        parallel.only_asks = true;
        const auto run = configured->task->prepare(parallel);
        evaluates = run.valid_data != nullptr;
        if (made.size() == 1) data = status_of(run.files.inputs);
      }
      configured->training.check(/*trains=*/true, evaluates);
      if (evaluates) continue;
    } catch (const UsageError& error) {
      fail<UsageError>("cli", "--try: with {} a training would be refused: {}",
                       trials::text_of(trial.options), error.what());
    }
    fail<UsageError>("cli",
                     "a search compares evaluations; got no evaluation data; try "
                     "--data.valid FILE");
  }
  return data;
}

std::string metric_of(const Configured& configured) {
  const auto& asked = configured.training.metric_for_best_model;
  if (!asked.empty()) return asked.starts_with("eval_") ? asked.substr(5) : asked;
  return configured.task->main_metrics().front();
}

bool direction_of(const Configured& configured, const std::string& metric) {
  const auto& asked = configured.training.greater_is_better;
  if (asked != "auto") return asked == "true";
  const auto known = greater_is_better(metric);
  if (known) return *known;
  fail<UsageError>(
      "cli", "nothing tells whether a higher {} is better; try --greater_is_better true", metric);
}

/// Takes up an interrupted search. Throws UsageError where the folder has another.
int64_t take_up(const fs::path& file, const Json& asked, bool overwrites, trials::Search& search) {
  if (!fs::exists(file) || overwrites) return 0;
  try {
    const auto json = parse_json(read_file(file), file.string());
    if (json.at("search") == asked && search.take(json.at("trials"))) {
      int64_t done = 0;
      for (const auto& trial : search.trials) done += std::ssize(trial.scores);
      return done;
    }
  } catch (const FileError& error) {
    fail<UsageError>("cli", "{}; try another --output_dir, or --overwrite_output_dir",
                     error.what());
  } catch (const Json::exception&) {  // another form
  }
  fail<UsageError>("cli",
                   "{} is of another search (other options, trials or data); try another "
                   "--output_dir, or --overwrite_output_dir",
                   file.string());
}

/// Makes room for a search: what another one left is removed, if that is asked for. Throws
/// UsageError where it is not, and for the folder of a run.
void begin_anew(const fs::path& folder, bool overwrites) {
  for (const char* name : {"config.json", "run.toml"}) {
    if (!fs::exists(folder / name)) continue;
    fail<UsageError>("cli", "{} is the folder of a run; try another --output_dir", folder.string());
  }
  std::vector<fs::path> trials;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    int64_t number = 0;
    const bool is_trial = name.starts_with(kTrialPrefix) &&
                          parse_number(name.substr(std::string_view(kTrialPrefix).size()), number);
    if (is_trial && entry.is_directory()) trials.push_back(entry.path());
  }
  if (!trials.empty() && !overwrites) {
    fail<UsageError>("cli",
                     "{} is of a search whose {} is gone; try another --output_dir, or "
                     "--overwrite_output_dir",
                     trials.front().string(), kTrialsFile);
  }
  for (const auto& trial : trials) remove_whole(trial);
  for (const char* name : {"best.toml", "trials.md"}) fs::remove(folder / name);
}

/// Sentence where chance may have chosen the best; "" = none.
std::string warning_of_chance(const trials::Search& search) {
  const auto order = search.best_first();
  if (order.size() < 2) return "";
  const auto &best = search.trials[order[0]].scores, &next = search.trials[order[1]].scores;
  if (best.size() != next.size() || best.empty() || !best.back().error) return "";
  const double gap = std::abs(best.back().value - next.back().value);
  if (gap > 2 * *best.back().error) return "";
  return fmt::format(
      "trial {} is ahead of trial {} by {:.4f}, which is within twice the standard error of an "
      "evaluation, {:.4f}: chance may have chosen{}",
      order[0], order[1], gap, *best.back().error,
      search.trials.front().options.contains("train.seed") ? "" : "; try --try seed=1,2,3");
}

int run_tune(const TuneOptions& options) {
  if (launch::detect_environment().world_size > 1) {
    fail<UsageError>("cli",
                     "convoy tune starts its trainings itself; try it without a launcher, "
                     "with --nproc or --jobs");
  }
  const auto configured = read_config(options.config);
  const auto& output = configured->training.output;
  if (output.dir.empty()) {
    fail<UsageError>("cli", "a search keeps its trainings; try --output_dir runs/tune");
  }
  if (!configured->task->windows().empty()) {
    fail<UsageError>("cli",
                     "a search trains on one data set, not on windows; try --data.path with "
                     "the folder of one");
  }
  trials::Search search;
  search.trials = make_trials(options, *configured);
  search.rungs = trials::rungs(std::ssize(search.trials), options.rungs, options.reduction);
  const auto metric = metric_of(*configured);
  search.greater_is_better = direction_of(*configured, metric);
  const auto data = check_trials(options, search.trials);
  const fs::path folder = output.dir;
  make_folder(folder);
  const FolderLock lock(folder);
  if (!lock.held() && lock.trouble().empty()) {
    fail<UsageError>("cli", "{} is in use by {}; try another --output_dir", folder.string(),
                     lock.holder());
  }
  const Json asked{
      {"options", search_options(*configured)}, {"metric", metric},       {"rungs", options.rungs},
      {"reduction", options.reduction},         {"nproc", options.nproc}, {"data", data}};
  const auto file = folder / kTrialsFile;
  const auto keep = [&] {
    write_file(file, Json{{"search", asked}, {"trials", search.to_json()}}.dump(2) + "\n");
  };
  const auto done = take_up(file, asked, output.overwrite, search);
  if (!fs::exists(file) || output.overwrite) begin_anew(folder, output.overwrite);
  keep();
  launch::leave_on_stop_signals();

  TrialTrainings trainings({.config = options.config,
                            .folder = folder,
                            .metric = metric,
                            .jobs = options.jobs,
                            .nproc = options.nproc,
                            .keeps_checkpoints = configured->training.load_best_model_at_end,
                            .keeps_threads = configured->table.asked_for("parallel.threads")},
                           search);
  report::show_progress(trainings.plan_text(done));
  trials::run(search, options.jobs,
              {.run = [&](size_t trial, size_t rung) { return trainings.run(trial, rung); },
               .done =
                   [&](size_t trial, size_t rung) {
                     keep();
                     report::show_progress(trainings.line(trial, rung));
                   }});

  const auto table = trials::table_of(search);
  const auto title = metric + " after each round, with its standard error:";
  write_file(folder / "trials.md", title + "\n\n" + table.to_markdown());
  fmt::print("\n{}\n{}\n", title, table.to_text());
  const auto best = search.best_first().front();
  if (search.trials[best].scores.empty()) {
    fail<Error>("cli", "no training succeeded: {}", search.trials[best].failure);
  }
  write_file(folder / "best.toml", trainings.config_of(best));
  const auto line = [](const std::string& text) { fmt::print("{}\n", wrap(text, 2)); };
  line(fmt::format("best: trial {}, {}; its model is in {}", best,
                   trials::text_of(search.trials[best].options), trainings.folder(best).string()));
  if (const auto text = warning_of_chance(search); !text.empty()) line(text);
  line(
      fmt::format("wrote {0}/best.toml (convoy train {0}/best.toml --output_dir DIR), "
                  "{0}/trials.json and {0}/trials.md; convoy report {0}/trial-* shows all",
                  folder.string()));
  return 0;
}

}  // namespace

void add_tune(CLI::App& app, RunCommand& run) {
  auto options = std::make_shared<TuneOptions>();
  auto* command = app.add_subcommand(
      "tune", "Search for the best learning rate, width, body and other options");
  command->add_option("config", options->config, "TOML file of the run");
  command->add_option("--trials", options->trials, "sets of options to try, the run's own first")
      ->check(CLI::Range(int64_t{1}, kMostTrials))
      ->capture_default_str();
  command->add_option(
      "--try", options->tried,
      "OPTION=LOW..HIGH (drawn by the logarithm where LOW is above 0) or OPTION=VALUE,VALUE; once "
      "for each option [the learning rate, and what the task names]");
  command
      ->add_option("--rungs", options->rungs,
                   "rounds: after each the best trials alone train on (successive halving)")
      ->check(at_least(1))
      ->capture_default_str();
  command
      ->add_option("--reduction", options->reduction,
                   "one of so many trials comes through a round, and trains so many times as long")
      ->check(at_least(2))
      ->capture_default_str();
  command->add_option("--jobs", options->jobs, "trainings at a time, which share the cores")
      ->check(at_least(1))
      ->capture_default_str();
  command->add_option("--nproc", options->nproc, "ranks of each training")
      ->check(at_least(1))
      ->capture_default_str();
  command->footer([] {
    return "Options of the run can be given as for convoy train; those that are tried differ. A "
           "round goes on from the checkpoints of the one before, with the learning rates of the "
           "whole training. Typed again, an interrupted search goes on.\n"
           "The best has the best metric_for_best_model, by default the task's first one.\n\n"
           "Examples:\n"
           "  convoy tune run.toml --output_dir runs/tune\n"
           "  convoy tune run.toml --trials 40 --jobs 2 --output_dir runs/tune\n"
           "  convoy tune --data.path ml100k --num_train_epochs 27 --output_dir runs/tune \\\n"
           "    --try learning_rate=1e-4..1e-2 --try body=sasrec,gpt2 --try n_layer=1..3\n"
           "  convoy tune run.toml --try seed=1,2,3,4 --rungs 1 --output_dir runs/seeds\n";
  });
  command->callback([options, &run] { run = [options] { return run_tune(*options); }; });
}

}  // namespace convoy::cli
