#pragma once

#include <string>

#include "cli/program.h"
#include "convoy/job/job.h"

namespace convoy::cli {

/// File with the plan of a run with strategy = plan and the question it answers, as its checkpoints
/// keep it.
inline constexpr const char* kPlanFile = "plan.json";

/// Throws UsageError where an option was typed that strategy = plan decides.
void check_plans(const Configured& configured);

/// Decides how the ranks of a run that have met share its work: as the checkpoint says that the run
/// resumes from, where that was planned for the same ranks, else by a plan that rank 0 makes. Sets
/// it among the options of `configured`, and `text` to the content of kPlanFile. `config`: the
/// run's TOML file, or "". Collective.
job::Decision decide(const std::string& config, Configured& configured, const job::Job& met,
                     const job::MetRanks& met_ranks, std::string& text);

}  // namespace convoy::cli
