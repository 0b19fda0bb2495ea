#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/program.h"
#include "convoy/base/json.h"
#include "convoy/trials/halving.h"

namespace convoy::cli {

/// Options as they are typed: --section.name=value.
std::vector<std::string> flags_of(const trials::Options& options);

/// Options of a run whose value decides what its trials compute: all that a run keeps, but where it
/// writes.
Json search_options(const Configured& configured);

/// Settings of a search's trainings.
struct TrainingsOptions {
  std::string config;  ///< TOML file of the run; "" = none
  std::filesystem::path folder;
  std::string metric;  ///< without eval_
  int64_t jobs = 1;
  int64_t nproc = 1;
  /// Whether the run says when checkpoints are saved; else each round saves its end alone.
  bool keeps_checkpoints = false;
  bool keeps_threads = false;  ///< the run says how many it has; else jobs share the cores
};

/// Beginning of the names of trials' folders.
inline constexpr const char* kTrialPrefix = "trial-";

/// Trainings of a search: a process of this program each, in folders trial-0 and so on.
class TrialTrainings {
 public:
  TrialTrainings(TrainingsOptions options, const trials::Search& search);

  /// Trains a trial through a round. Its output goes to a file of its own. Throws Error for what
  /// would befall all trials.
  trials::Outcome run(size_t trial, size_t rung);
  /// Sentence about all rounds, of which `done` trainings are done.
  std::string plan_text(int64_t done) const;
  /// Line about a training that ended, with the time left.
  std::string line(size_t trial, size_t rung) const;

  std::filesystem::path folder(size_t trial) const;
  /// Configuration of a trial as a run of its own, without what the search sets for its rounds.
  std::string config_of(size_t trial) const;

 private:
  std::vector<std::string> command(size_t trial, size_t rung) const;
  trials::Outcome outcome(size_t trial) const;
  std::filesystem::path log_file(size_t trial) const;
  /// Trainings of a round, with what each costs: the share of all steps that it makes.
  double cost(size_t rung) const;
  double seconds_left() const;

  TrainingsOptions options_;
  const trials::Search& search_;
  std::vector<std::string> typed_;
};

}  // namespace convoy::cli
