#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/program.h"
#include "convoy/base/options.h"
#include "convoy/launch/supervise/temporary_folder.h"
#include "convoy/plan/search.h"

namespace convoy::cli {

/// Options of a run by section.name, each with a value.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// What a split makes of a run's options: what it says, and the defaults of others that decide the
/// same.
Settings settings_of(const plan::Split& split, const OptionTable& table);

/// What was typed of options that a plan decides, as section.name, but for what it reads: how many
/// rows a step has, and files.
std::vector<std::string> typed_for_plan(const OptionTable& table);

/// Sets them.
void set(OptionTable& table, const Settings& settings);

/// Gives a run a split's options.
void set_split(Configured& configured, const plan::Split& split);

/// Keeps with a run what was predicted for it; `device`: of another host, "" for this one.
void set_prediction(Configured& configured, const plan::Planned& planned,
                    const std::string& device);

/// Where options that a plan decides were typed beside it, the run is another: its prediction is
/// dropped, with a note.
void drop_prediction_of_others(Configured& configured);

/// A folder for the files of trials, which goes with this, and with the process if it is killed.
class TrialFolder {
 public:
  TrialFolder();

  /// Writes the run of a split; gives the file's name. `configured` is afterwards as it was.
  std::string write(Configured& configured, const plan::Split& split) const;
  /// Writes a run as it is now.
  std::string write(const Configured& configured) const;

 private:
  launch::TemporaryFolder folder_;
};

}  // namespace convoy::cli
