#include "convoy/train/pipeline.h"

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::train {

parallel::PipelineOptions pipeline_options(const ParallelArguments& arguments) {
  const auto& [schedule, splits] = std::tie(arguments.pipeline_schedule, arguments.pipeline_splits);
  if (arguments.pipeline_parallel_size == 1) {
    const ParallelArguments usual;
    const bool asks = schedule != usual.pipeline_schedule || !splits.empty();
    if (asks) {
      fail<UsageError>(
          "parallel", "{} has no effect without a pipeline; try --pipeline_parallel_size 2",
          splits.empty() ? "pipeline_schedule = " + schedule : "pipeline_splits = " + splits);
    }
    return {};
  }
  parallel::PipelineOptions options;
  options.schedule = schedule::pipeline_schedule(schedule);
  options.rounds = static_cast<int>(arguments.pipeline_virtual_stages);
  if (splits.empty()) return options;
  for (const auto& text : split(splits, ',')) {
    int64_t block = 0;
    if (!parse_number(text, block)) {
      fail<UsageError>("parallel",
                       "pipeline_splits = {}; expected numbers of blocks between commas: 4,8; got "
                       "'{}'",
                       splits, text);
    }
    options.splits.push_back(block);
  }
  return options;
}

std::string stages_text(const schedule::Layout& layout) {
  std::vector<std::string> stages;
  for (size_t stage = 0; stage < layout.options().stages.size(); ++stage) {
    std::vector<std::string> rows;
    for (const auto& [first, last] : layout.runs_of_blocks(static_cast<int>(stage))) {
      rows.push_back(first == last ? std::to_string(first) : fmt::format("{}-{}", first, last));
    }
    stages.push_back(join(rows, ", "));
  }
  return join(stages, " | ");
}

std::string pipeline_text(parallel::Replica& replica, const ParallelArguments& arguments) {
  const auto& layout = replica.arena().layout();
  const auto num_stages = layout.options().stages.size();
  if (num_stages == 0) return "";
  return fmt::format("{} stages, {}, blocks {}; about {:.0f} % of a step's time stands still",
                     num_stages, arguments.pipeline_schedule, stages_text(layout),
                     100 * replica.timeline().idle());
}

}  // namespace convoy::train
