#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "convoy/schedule/pipeline/actions.h"
#include "convoy/schedule/pipeline/cut.h"
#include "convoy/schedule/run/run_options.h"

namespace convoy::schedule {

/// Entry of the table of schedules.
struct PipelineScheduleEntry {
  PipelineSchedule schedule;
  const char* name;  ///< as parallel.pipeline_schedule has it
  bool interleaved;  ///< a rank may have several virtual stages
  /// Makes the actions of all ranks in a step.
  Orders (*orders)(const Pipe& pipe);
};

/// Adds a schedule behind the others: at the start of a program, before anything asks for one.
PipelineSchedule add_pipeline_schedule(const char* name, bool interleaved,
                                       Orders (*orders)(const Pipe& pipe));

const std::vector<PipelineScheduleEntry>& pipeline_schedules();
const PipelineScheduleEntry& entry_of(PipelineSchedule schedule);

/// Cache of cuts, and of orders that do not depend on the costs of virtual stages.
class KnownPipes {
 public:
  /// cut_blocks().
  const Cut& cut(const std::vector<double>& costs, int num_stages, int virtual_stages,
                 Placement placement);
  /// Actions of all ranks in a step.
  Orders orders(PipelineSchedule schedule, const Pipe& pipe);

 private:
  std::map<std::tuple<std::vector<double>, int, int, Placement>, Cut> cuts_;
  /// Schedule, placement of virtual stages, and number of micro-batches.
  using Key = std::tuple<PipelineSchedule, std::vector<int>, int64_t>;
  std::map<Key, Orders> orders_;
};

/// Names of the schedules.
std::vector<std::string> pipeline_schedule_names();

const char* name_of(PipelineSchedule schedule);
/// Throws UsageError for another name.
PipelineSchedule parse_schedule(const std::string& name);

/// Virtual stages of a cut with their costs, from those of blocks; of `recomputed` blocks inputs
/// are kept, and their backward takes a forward more.
Pipe pipe_of(const Cut& cut, int64_t num_micro_batches, const Costs& costs = {},
             const std::set<int64_t>& recomputed = {});

/// [rank] Actions of a schedule on the blocks of a cut.
std::vector<std::vector<BlockAction>> actions_of(const Cut& cut, const Orders& orders);

/// Programs of a step of all stages, from their layouts; `by_block`: for schedules that go by
/// costs.
std::vector<Program> pipeline_programs(PipelineSchedule schedule,
                                       const std::vector<Layout>& layouts,
                                       const StepOptions& options, const Costs& by_block = {});

/// As above, for given orders: `cut` is that of the layouts, where several neighbouring stretches
/// may be one rank's.
std::vector<Program> pipeline_programs(const Cut& cut, const Orders& orders,
                                       const std::vector<Layout>& layouts,
                                       const StepOptions& options);

}  // namespace convoy::schedule
