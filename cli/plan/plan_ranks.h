#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/planner/plan/planner.h"

namespace convoy::cli {

/// Plan for some number of ranks.
struct PlanOfRanks {
  int num_ranks = 0;
  int64_t rows = 0;  ///< of a step
  bool fits = false;
  planner::Candidate best;  ///< or where nothing fits the one with least memory
  std::string verdict;      ///< reason why nothing fits
};

/// Plan of a report.
PlanOfRanks plan_of_ranks(const planner::PlanReport& report);

/// Prints a table of plans, as JSON if asked to.
void print_plans_of_ranks(const std::vector<PlanOfRanks>& plans, bool json);

/// Draws a step's time and memory by number of ranks as an SVG file.
void draw_plans_of_ranks(const std::string& file, const std::vector<PlanOfRanks>& plans);

}  // namespace convoy::cli
