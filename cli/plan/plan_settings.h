#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/program.h"
#include "convoy/base/options.h"
#include "convoy/launch/supervise/temporary_folder.h"
#include "convoy/planner/search/search.h"

namespace convoy::cli {

/// Options of a run by section.name, each with a value.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// Options of a run that follow from a split, with the defaults of others that decide the same.
Settings settings_of(const parallel::Parallelism& split, const OptionTable& table);

/// Typed options that a plan decides, as section.name, but for those that it reads: the rows of a
/// step, and files.
std::vector<std::string> typed_for_plan(const OptionTable& table);

/// Sets these options.
void set(OptionTable& table, const Settings& settings);

/// Settings of a split and the strategy that trains it.
Settings settings_of_run(const parallel::Parallelism& split, const OptionTable& table);

/// Settings of a training that is a trial: it neither evaluates nor chooses its batch, and nobody
/// is told of it. What it saves, and where, is up to the trial.
Settings settings_of_trial();

/// Gives a run a split's options.
void set_split(Configured& configured, const parallel::Parallelism& split);

/// Keeps the prediction of a run with it; `device`: another host's, "" for this one.
void set_prediction(Configured& configured, const planner::Candidate& planned,
                    const std::string& device);

/// Drops the prediction, with a note, where options that a plan decides were typed beside it: the
/// run is another.
void drop_prediction_of_others(Configured& configured);

/// A folder for the files of trials, which goes with this, and with the process if it is killed.
class TrialFolder {
 public:
  TrialFolder();

  const std::filesystem::path& path() const { return folder_.path(); }

  /// Writes the run with these settings; gives the file's name. `configured` is afterwards as it
  /// was.
  std::string write(Configured& configured, const Settings& settings) const;
  /// Writes the run of a split; returns the file's name. Leaves `configured` as it was.
  std::string write(Configured& configured, const parallel::Parallelism& split) const;
  /// Writes a run as it is now.
  std::string write(const Configured& configured) const;

 private:
  launch::TemporaryFolder folder_;
};

}  // namespace convoy::cli
