#include "convoy/schedule/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::schedule {

namespace {

constexpr const char* kNames[] = {"gpipe", "1f1b", "interleaved"};

/// Micro-batches in groups as large as the pipeline, each group through all rows.
std::vector<Task> in_groups(const BlockRows& rows, bool backward, int64_t group,
                            int64_t num_micro_batches) {
  std::vector<Task> out;
  for (int64_t first = 0; first < num_micro_batches; first += group) {
    for (size_t r = 0; r < rows.size(); ++r) {
      const auto& [begin, end] = rows[backward ? rows.size() - 1 - r : r];
      for (int64_t m = first; m < std::min(first + group, num_micro_batches); ++m) {
        out.push_back({backward, begin, end, m});
      }
    }
  }
  return out;
}

}  // namespace

const char* name_of(PipelineSchedule schedule) {
  return kNames[static_cast<size_t>(schedule)];
}

PipelineSchedule pipeline_schedule(const std::string& name) {
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) {
    fail<UsageError>("parallel", "pipeline_schedule = {}; expected gpipe, 1f1b or interleaved",
                     name);
  }
  return static_cast<PipelineSchedule>(found - std::begin(kNames));
}

Stages cut_into_stages(const std::vector<double>& costs, int num_stages, int rounds) {
  const size_t num_rows = static_cast<size_t>(num_stages) * static_cast<size_t>(rounds);
  const size_t n = costs.size();
  internal_check(n >= num_rows, "schedule", "{} blocks for {} rows", n, num_rows);
  // The dearest row and the sum of squares, of the first `end` blocks in `row` rows.
  using Cost = std::pair<double, double>;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<Cost>> best(num_rows + 1, std::vector<Cost>(n + 1, {kNever, kNever}));
  std::vector<std::vector<size_t>> cut(num_rows + 1, std::vector<size_t>(n + 1));
  best[0][0] = {0, 0};
  for (size_t row = 1; row <= num_rows; ++row) {
    for (size_t end = row; end <= n; ++end) {
      double cost = 0;
      for (size_t begin = end; begin-- >= row;) {
        cost += costs[begin];
        if (cost > best[row][end].first) break;  // a longer row costs more yet
        const auto& before = best[row - 1][begin];
        const Cost all{std::max(before.first, cost), before.second + cost * cost};
        if (all < best[row][end]) {
          best[row][end] = all;
          cut[row][end] = begin;
        }
      }
    }
  }
  Stages stages(static_cast<size_t>(num_stages));
  size_t end = n;
  for (size_t row = num_rows; row > 0; --row) {
    auto& blocks = stages[(row - 1) % stages.size()];
    const size_t begin = cut[row][end];
    std::vector<int64_t> more;
    for (size_t b = begin; b < end; ++b) more.push_back(static_cast<int64_t>(b));
    blocks.insert(blocks.begin(), more.begin(), more.end());
    end = begin;
  }
  return stages;
}

std::vector<Task> pipeline_tasks(PipelineSchedule schedule, const Layout& layout,
                                 int64_t num_micro_batches) {
  const auto& options = layout.options();
  const auto num_stages = static_cast<int64_t>(options.stages.size());
  const auto rows = layout.runs_of_blocks();
  const bool grouped = schedule == PipelineSchedule::Interleaved;
  const int64_t group = grouped ? num_stages : num_micro_batches;
  const auto forwards = in_groups(rows, false, group, num_micro_batches);
  const auto backwards = in_groups(rows, true, group, num_micro_batches);
  // Forwards before those that take turns with the backwards.
  size_t ahead = forwards.size();
  const auto after = static_cast<size_t>(num_stages - 1 - options.pipeline_stage);
  // The last stage waits for nothing in between, and its loss gives gradients in forward.
  if (schedule == PipelineSchedule::OneFOneB || after == 0) ahead = after;
  if (grouped) ahead = 2 * after + (rows.size() - 1) * static_cast<size_t>(num_stages);
  ahead = std::min(ahead, forwards.size());
  std::vector<Task> out(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(ahead));
  for (const auto& backward : backwards) {
    if (ahead < forwards.size()) out.push_back(forwards[ahead++]);
    out.push_back(backward);
  }
  return out;
}

std::vector<Program> pipeline_programs(PipelineSchedule schedule,
                                       const std::vector<Layout>& layouts,
                                       const StepOptions& options) {
  const auto num_stages = static_cast<int64_t>(layouts.size()), m = options.num_micro_batches;
  if (schedule == PipelineSchedule::Interleaved && m % num_stages != 0) {
    const int64_t more = (m / num_stages + 1) * num_stages;
    fail<UsageError>(
        "parallel",
        "pipeline_schedule = interleaved takes micro-batches in groups as large as "
        "the pipeline, and gradient_accumulation_steps = {} does not divide by {}; "
        "try {}",
        m, num_stages,
        m < num_stages ? std::to_string(more) : fmt::format("{} or {}", more - num_stages, more));
  }
  std::vector<Program> out;
  for (const auto& layout : layouts) {
    const auto tasks = pipeline_tasks(schedule, layout, options.num_micro_batches);
    out.push_back(
        with_offload(with_gathers(step_program(layout, options, tasks), layout, options), layout));
  }
  return out;
}

}  // namespace convoy::schedule
