#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "convoy/base/json.h"

namespace convoy::report {

/// What a run's output folder tells, under way or not.
struct RunRecord {
  std::string name;                            ///< of the folder
  std::string folder;                          ///< as it was given
  std::map<std::string, std::string> options;  ///< run.toml's, by "section.name"
  /// What was logged at each step, by column: "loss", "eval_ndcg_at_10"; NaN where a line has none.
  std::map<std::string, std::vector<double>> columns;
  std::vector<double> steps;              ///< of the lines
  std::map<std::string, double> results;  ///< of all_results.json, or of the last lines
  std::vector<std::string> messages;
  Json plan;           ///< plan.json of the last checkpoint; null without one
  bool ended = false;  ///< results were written
};

/// Reads a folder. A last line that is still being written is passed over. Throws FileError where
/// there is neither log.jsonl nor run.toml.
RunRecord read_run(const std::filesystem::path& folder);

/// One HTML page of some runs that needs no network: curves to compare, memory by kind, results,
/// what differs in the options, messages, and a picture (SVG) where one is given.
std::string run_page(const std::vector<RunRecord>& runs, const std::string& picture = "");

}  // namespace convoy::report
