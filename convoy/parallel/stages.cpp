#include "convoy/parallel/stages.h"

#include <fmt/ranges.h>

#include <map>
#include <numeric>

#include "convoy/base/error.h"

namespace convoy::parallel {

namespace {

std::vector<schedule::RankProgram> of_pipeline(const std::vector<schedule::Program>& programs,
                                               const std::vector<schedule::Layout>& layouts) {
  std::vector<int> pipeline(layouts.size());
  std::iota(pipeline.begin(), pipeline.end(), 0);
  std::vector<schedule::RankProgram> out;
  for (size_t s = 0; s < layouts.size(); ++s) out.push_back({programs[s], layouts[s], pipeline});
  return out;
}

}  // namespace

std::vector<double> block_costs(const nn::BlockList& blocks) {
  std::map<const nn::Param*, size_t> last_reader;
  for (size_t b = 0; b < blocks.size(); ++b) {
    for (const auto& param : blocks[b]->params()) last_reader[param.get()] = b;
  }
  std::vector<double> costs(blocks.size());
  for (const auto& [param, block] : last_reader) {
    const auto& spec = param->spec();
    const bool looked_up = !spec.read_in_backward && block + 1 < blocks.size();
    if (spec.shape.size() < 2 || looked_up) continue;
    costs[block] += static_cast<double>(schedule::num_elements(spec.shape));
  }
  return costs;
}

schedule::Stages cut_into_stages(const nn::BlockList& blocks, int num_stages,
                                 const PipelineOptions& options) {
  const bool interleaved = options.schedule == schedule::PipelineSchedule::Interleaved;
  const int rounds = interleaved ? options.rounds : 1;
  const auto num_blocks = static_cast<int64_t>(blocks.size());
  if (num_blocks < static_cast<int64_t>(num_stages) * rounds) {
    std::vector<std::string> names;
    for (const auto& block : blocks) names.push_back(block->name());
    const int64_t rows_each = num_blocks / num_stages;
    fail<UsageError>("parallel",
                     "a pipeline of {} stages{} needs as many blocks; got a model of {} ({}); try "
                     "{}",
                     num_stages,
                     rounds > 1 ? fmt::format(" with {} rows of blocks each", rounds) : "",
                     num_blocks, fmt::join(names, ", "),
                     rows_each > 1   ? fmt::format("pipeline_virtual_stages = {}", rows_each)
                     : rows_each > 0 ? "pipeline_schedule = 1f1b"
                                     : "a smaller pipeline_parallel_size");
  }
  if (options.splits.empty()) {
    return schedule::cut_into_stages(block_costs(blocks), num_stages, rounds);
  }
  const auto& splits = options.splits;
  if (static_cast<int>(splits.size()) != num_stages * rounds - 1) {
    fail<UsageError>("parallel",
                     "pipeline_splits = {} makes {} rows of blocks; expected {} numbers for {} "
                     "stages{}",
                     fmt::join(splits, ","), splits.size() + 1, num_stages * rounds - 1, num_stages,
                     rounds > 1 ? fmt::format(" with {} rows each", rounds) : "");
  }
  schedule::Stages stages(static_cast<size_t>(num_stages));
  int64_t begin = 0;
  for (size_t row = 0; row <= splits.size(); ++row) {
    const int64_t end = row < splits.size() ? splits[row] : num_blocks;
    if (end <= begin || end > num_blocks) {
      fail<UsageError>("parallel",
                       "pipeline_splits = {} must ascend between 1 and {}, the last block of the "
                       "model; got {}",
                       fmt::join(splits, ","), num_blocks - 1, end);
    }
    auto& held = stages[row % stages.size()];
    for (; begin < end; ++begin) held.push_back(begin);
  }
  return stages;
}

schedule::Costs product_costs(const nn::BlockList& blocks) {
  schedule::Costs costs{block_costs(blocks), block_costs(blocks)};
  for (auto& cost : costs.backward) cost *= 2;
  return costs;
}

StagePrograms make_programs(const schedule::Layout& layout, schedule::PipelineSchedule schedule,
                            const schedule::StepOptions& options, bool trains) {
  StagePrograms out;
  const auto num_stages = static_cast<int>(layout.options().stages.size());
  if (num_stages == 0) out.layouts = {layout};
  for (int s = 0; s < num_stages; ++s) out.layouts.push_back(layout.of_stage(s));
  for (const auto& own : out.layouts) {
    out.forwards.push_back(schedule::forward_program(own, options));
  }
  schedule::check_forward(of_pipeline(out.forwards, out.layouts));
  if (!trains) return out;
  if (num_stages == 0) {
    out.steps = {schedule::data_parallel_program(layout, options)};
  } else {
    out.steps = schedule::pipeline_programs(schedule, out.layouts, options);
  }
  out.alive = schedule::check(of_pipeline(out.steps, out.layouts), options);
  return out;
}

schedule::Timeline StagePrograms::timeline(const schedule::Costs& costs) const {
  return schedule::simulate(of_pipeline(steps, layouts), costs);
}

}  // namespace convoy::parallel
