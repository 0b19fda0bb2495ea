#include "cli/tune/trainings.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/launch/process.h"
#include "convoy/machine/cores.h"
#include "convoy/train/scorer.h"
#include "convoy/trials/table.h"

namespace convoy::cli {

namespace fs = std::filesystem;

namespace {

/// Whether a line of a configuration sets the folder or the length of a run.
bool of_search(const std::string& section, const std::string& line) {
  const auto begins = [&](const char* name) { return line.starts_with(std::string(name) + " ="); };
  return (section == "[output]" && (begins("dir") || begins("overwrite"))) ||
         (section == "[train]" && (begins("stop_steps") || begins("resume_from_checkpoint")));
}

std::string without_places(const std::string& toml) {
  std::string out, section;
  for (const auto& line : split(toml, '\n')) {
    if (line.starts_with("[")) section = line;
    if (!of_search(section, line)) out += line + "\n";
  }
  return out;
}

/// Last line of an output that reports an error, else its last line.
std::string last_words(const std::string& output) {
  std::string out;
  for (const auto& line : split(output, '\n')) {
    if (line.empty()) continue;
    const bool tells = line.find("error: ") != std::string::npos;
    if (tells || out.find("error: ") == std::string::npos) out = line;
  }
  return out;
}

}  // namespace

std::vector<std::string> flags_of(const trials::Options& options) {
  std::vector<std::string> out;
  for (const auto& [key, value] : options) out.push_back(fmt::format("--{}={}", key, value));
  return out;
}

Json search_options(const Configured& configured) {
  return without_places(configured.table.to_kept_toml());
}

TrialTrainings::TrialTrainings(TrainingsOptions options, const trials::Search& search)
    : options_(std::move(options)), search_(search), typed_(typed_overrides()) {
  if (!options_.config.empty()) options_.config = fs::absolute(options_.config).string();
}

fs::path TrialTrainings::folder(size_t trial) const {
  return options_.folder / fmt::format("{}{}", kTrialPrefix, trial);
}

fs::path TrialTrainings::log_file(size_t trial) const {
  return options_.folder / "logs" / fmt::format("{}{}.log", kTrialPrefix, trial);
}

std::vector<std::string> TrialTrainings::command(size_t trial, size_t rung) const {
  auto out = launch::this_program();
  out.emplace_back("train");
  if (!options_.config.empty()) out.push_back(options_.config);
  out.insert(out.end(), typed_.begin(), typed_.end());
  const auto tried = flags_of(search_.trials[trial].options);
  out.insert(out.end(), tried.begin(), tried.end());
  const double share = search_.rungs[rung].share;
  out.push_back(fmt::format("--train.stop_steps={}", share < 1 ? share : 0));
  out.push_back("--output.dir=" + folder(trial).string());
  out.push_back(fmt::format("--output.overwrite={}", rung == 0));
  if (rung > 0) out.emplace_back("--train.resume_from_checkpoint=latest");
  if (!options_.keeps_checkpoints) {
    constexpr int64_t kNever = 1'000'000'000;
    out.emplace_back("--train.save_strategy=steps");
    out.push_back(fmt::format("--train.save_steps={}", kNever));
    out.emplace_back("--train.save_total_limit=1");
  }
  if (options_.jobs > 1 && !options_.keeps_threads) {
    const auto trainings = static_cast<int>(options_.jobs * options_.nproc);
    out.push_back(
        fmt::format("--parallel.threads={}", std::max(1, machine::usable_cores() / trainings)));
  }
  if (options_.nproc > 1) {
    out.insert(out.end(), {"--nproc", std::to_string(options_.nproc)});
  }
  return out;
}

trials::Outcome TrialTrainings::outcome(size_t trial) const {
  const auto file = folder(trial) / "eval_results.json";
  const auto json = parse_json(read_file(file), file.string());
  const auto key = "eval_" + options_.metric;
  if (!json.contains(key)) {
    std::vector<std::string> known;
    for (const auto& [name, value] : json.items()) {
      const bool is_metric = name.starts_with("eval_") && value.is_number() &&
                             name.find(train::kBaseline) == std::string::npos &&
                             !name.ends_with(train::kStandardError);
      if (is_metric) known.push_back(name.substr(5));
    }
    fail<UsageError>("cli", "metric_for_best_model = {} is none of {}{}", options_.metric,
                     join(known), did_you_mean(options_.metric, known));
  }
  if (!json.at(key).is_number()) return {.score = {}, .failure = key + " is not finite"};
  trials::Outcome out{.score = {.value = json.at(key)}};
  const auto error = json.find(key + train::kStandardError);
  if (error != json.end() && error->is_number()) out.score.error = *error;
  return out;
}

trials::Outcome TrialTrainings::run(size_t trial, size_t rung) {
  const auto done = launch::run_process(command(trial, rung));
  const std::string before = rung == 0 ? "" : read_file(log_file(trial));
  make_folder(log_file(trial).parent_path());
  write_file(log_file(trial), before + done.out + done.err);
  if (!done.ok()) {
    const auto words = last_words(done.out + "\n" + done.err);
    return {.score = {},
            .failure = fmt::format("exit code {}: {} ({})", done.exit_code, words,
                                   log_file(trial).string())};
  }
  auto out = outcome(trial);
  out.score.seconds = done.seconds;
  return out;
}

double TrialTrainings::cost(size_t rung) const {
  return search_.rungs[rung].share - (rung == 0 ? 0 : search_.rungs[rung - 1].share);
}

double TrialTrainings::seconds_left() const {
  double seconds = 0, made = 0, left = 0;
  for (size_t rung = 0; rung < search_.rungs.size(); ++rung) {
    int64_t done = 0;
    for (const auto& trial : search_.trials) {
      if (trial.scores.size() <= rung) continue;
      ++done;
      seconds += trial.scores[rung].seconds;
    }
    made += static_cast<double>(done) * cost(rung);
    int64_t open = search_.rungs[rung].trials - done;
    if (rung == 0) {
      open -= std::ranges::count_if(
          search_.trials, [](const auto& trial) { return trial.failed() && trial.scores.empty(); });
    }
    left += static_cast<double>(std::max<int64_t>(0, open)) * cost(rung);
  }
  return made > 0 ? seconds / made * left / static_cast<double>(options_.jobs) : 0;
}

std::string TrialTrainings::plan_text(int64_t done) const {
  double all = 0;
  std::vector<std::string> parts;
  for (size_t rung = 0; rung < search_.rungs.size(); ++rung) {
    const auto& [trials, share] = search_.rungs[rung];
    all += static_cast<double>(trials) * cost(rung);
    parts.push_back(fmt::format("{} to {:.3g} % of the steps", trials, 100 * share));
  }
  auto out = fmt::format("{}: {}; as much as {:.1f} whole trainings",
                         plural(std::ssize(search_.trials), "trial"), join(parts), all);
  if (done > 0) out += fmt::format("; goes on after {} that are done", plural(done, "training"));
  return wrap(out, 2) + "\n";
}

std::string TrialTrainings::line(size_t at, size_t rung) const {
  const auto& trial = search_.trials[at];
  auto out = fmt::format("round {}/{}  trial {}  {}  ", rung + 1, search_.rungs.size(), at,
                         trials::text_of(trial.options));
  if (trial.failed()) {
    out += "failed: " + trial.failure;
  } else {
    out += fmt::format("{} {}  in {}", options_.metric, trials::score_text(trial.scores.back()),
                       human_seconds(trial.scores.back().seconds));
  }
  const auto best = search_.best_first().front();
  if (!search_.trials[best].scores.empty()) out += fmt::format("  best: trial {}", best);
  if (const double left = seconds_left(); left > 0) {
    out += fmt::format("  left {}", human_seconds(left));
  }
  return wrap(printable_lines(out), 2) + "\n";
}

std::string TrialTrainings::config_of(size_t trial) const {
  const auto own = read_config(options_.config, flags_of(search_.trials[trial].options));
  return without_places(own->table.to_kept_toml());
}

}  // namespace convoy::cli
