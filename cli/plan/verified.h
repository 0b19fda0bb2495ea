#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/program.h"
#include "convoy/bench/run_step.h"
#include "convoy/planner/search/search.h"

namespace convoy::cli {

/// A plan that was tried for real.
struct Verified {
  const planner::Candidate* planned;
  bench::MeasuredStep measured;
};

/// Throws UsageError, naming the file of its profile, where a cluster is more than this host, on
/// which `what` trains.
void check_on_this_host(const planner::Cluster& cluster, const std::string& what,
                        const std::string& profile);

/// Times some of the fastest plans, ddp and the fastest ZeRO, each in fresh ranks of this host.
std::vector<Verified> verify(Configured& configured, const planner::SearchResult& found,
                             int64_t number);

/// Returns the fastest of what was tried, or of what was only predicted; null: all that was tried
/// failed.
const planner::Candidate* chosen(const planner::SearchResult& found,
                                 const std::vector<Verified>& tried);

std::string to_text(const std::vector<Verified>& tried);

}  // namespace convoy::cli
