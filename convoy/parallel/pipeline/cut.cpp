#include "convoy/parallel/pipeline/cut.h"

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/parallel/pipeline/cut_search.h"

namespace convoy::parallel {

namespace {

// Stretches that a search goes through, and what cut_twice() has in memory.
constexpr size_t kMany = 256, kManyPairs = size_t{1} << 23;

int stage_at(size_t stretch, int num_stages, Placement placement) {
  const auto at = static_cast<int>(stretch);
  if (placement == Placement::V) return std::min(at, 2 * num_stages - 1 - at);
  return at % num_stages;
}

}  // namespace

const char* name_of(Placement placement) {
  return placement == Placement::V ? "v" : "loop";
}

Placement placement(const std::string& name) {
  for (const auto one : {Placement::Loop, Placement::V}) {
    if (name == name_of(one)) return one;
  }
  fail<UsageError>("parallel", "pipeline_placement = {}; expected one of loop, v", name);
}

Cut cut_at(const std::vector<int64_t>& begins, int64_t num_blocks, int num_stages,
           Placement placement) {
  Cut out;
  int64_t first = 0;
  for (size_t s = 0; s <= begins.size(); ++s) {
    const int64_t end = s < begins.size() ? begins[s] : num_blocks;
    internal_check(first < end && end <= num_blocks, "parallel", "stretch {} has no blocks", s);
    out.push_back({first, end - 1, stage_at(s, num_stages, placement)});
    first = end;
  }
  return out;
}

Cut cut_blocks(const std::vector<double>& costs, int num_stages, int virtual_stages,
               Placement placement) {
  const CutProblem problem(costs, num_stages, virtual_stages, placement);
  internal_check(costs.size() >= problem.num_stretches(), "parallel", "{} blocks for {} stretches",
                 costs.size(), problem.num_stretches());
  internal_check(placement == Placement::Loop || virtual_stages == 2, "parallel",
                 "{} virtual stages in a v", virtual_stages);
  Ends ends;
  if (virtual_stages == 1) {
    ends = cut_once(problem);
  } else {
    // Starts from the best cut where each virtual stage were a stage of its own.
    const CutProblem apart(costs, num_stages * virtual_stages, 1, Placement::Loop);
    ends = cut_once(apart);
    if (problem.num_stretches() <= kMany) ends = improved(problem, std::move(ends));
    const size_t pairs = costs.size() * costs.size() * problem.num_stages();
    Ends best;
    if (virtual_stages == 2 && pairs <= kManyPairs) {
      best = cut_twice(problem, std::get<0>(score(problem, ends)));
    }
    if (!best.empty()) {
      ends = std::move(best);
    } else if (problem.num_stretches() <= kMany) {
      ends = searched(problem, ends);
    }
  }
  const std::vector<int64_t> begins(ends.begin(), ends.end() - 1);
  return cut_at(begins, static_cast<int64_t>(costs.size()), num_stages, placement);
}

Cut cut_of(const Layout& layout) {
  Cut out;
  for (int64_t block = 0; block < static_cast<int64_t>(layout.table().units_of_block.size());
       ++block) {
    const int stage = layout.stage_of(block);
    if (out.empty() || out.back().stage != stage) out.push_back({block, block, stage});
    out.back().last_block = block;
  }
  return out;
}

Cut joined(const Cut& cut) {
  Cut out;
  for (const auto& stretch : cut) {
    if (out.empty() || out.back().stage != stretch.stage) {
      out.push_back(stretch);
    } else {
      out.back().last_block = stretch.last_block;
    }
  }
  return out;
}

Stages stages_of(const Cut& cut) {
  Stages out;
  for (const auto& [first, last, stage] : cut) {
    const auto at = static_cast<size_t>(stage);
    if (out.size() <= at) out.resize(at + 1);
    for (int64_t block = first; block <= last; ++block) out[at].push_back(block);
  }
  return out;
}

}  // namespace convoy::parallel
