#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/report/traced_collectives.h"

namespace convoy::report {

/// Content of a run's output folder, finished or not.
struct RunRecord {
  std::string name;                            ///< of the folder
  std::string folder;                          ///< path as it was given
  std::map<std::string, std::string> options;  ///< run.toml's, by "section.name"
  /// Logged values of each step, by column: "loss", "eval_ndcg_at_10"; NaN where a line has none.
  std::map<std::string, std::vector<double>> columns;
  std::vector<double> steps;              ///< of the lines
  std::map<std::string, double> results;  ///< of all_results.json, or of the last lines
  std::vector<std::string> messages;
  Json start;          ///< of the log's last start: time, host, num_parameters; null: not told
  Json over_time;      ///< results_over_time.json of a run over windows; null: it is none
  Json plan;           ///< plan.json of the last checkpoint; null without one
  bool ended = false;  ///< results were written
};

/// Reads a folder. A last line that is still being written is passed over; of a long log means are
/// kept, as `thin_out` makes them. Throws FileError where there is neither log.jsonl nor run.toml,
/// nor results_over_time.json, which is all that the folder of a run over windows has.
/// `checkpoints`: those of the run, the one that it goes on from last.
RunRecord read_run(const std::filesystem::path& folder,
                   const std::vector<std::filesystem::path>& checkpoints = {});

/// Leaves at most `most` steps: each is the last of neighbouring ones and has their means. A
/// message tells so.
void thin_out(RunRecord& run, size_t most);

/// Parts of a page beside the folders of its runs.
struct PageExtras {
  std::string picture = {};                         ///< SVG
  std::vector<CollectivesOfSize> collectives = {};  ///< of a traced step
};

/// One HTML page of some runs that needs no network: what and where they are, results with errors
/// and baseline, curves to compare, results over time, memory by kind, plans beside what was
/// measured, what differs in the options, messages, and `extras`.
std::string run_page(const std::vector<RunRecord>& runs, const PageExtras& extras = {});

}  // namespace convoy::report
