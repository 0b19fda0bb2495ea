#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "convoy/parallel/parallelism.h"
#include "convoy/parallel/pipeline/actions.h"
#include "convoy/parallel/pipeline/cut.h"

namespace convoy::parallel {

/// A pipeline schedule. All give the same sums; they differ in the length of the bubble, and in how
/// many micro-batches are kept for backward.
struct ScheduleEntry {
  const char* name;                    ///< value of --pipeline_schedule
  const char* help;                    ///< in brackets behind the name in the option's help
  Orders (*orders)(const Pipe& pipe);  ///< makes the actions of all ranks in a step
  bool interleaved = false;            ///< a rank may have several virtual stages
  bool halves = false;                 ///< backwards are split into input and weight gradients
  bool either_placement = false;       ///< virtual stages may lie in a loop or in a V
  /// Whether the orders depend on what virtual stages cost; null: they may.
  bool (*goes_by_costs)(const Pipe& pipe) = nullptr;
  /// Whether convoy plan tries it with so many stages and micro-batches; null: with several stages.
  bool (*is_planned)(int stages, int64_t micro_batches) = nullptr;
  /// Forwards that each virtual stage of a rank has begun at least when its first backward is due:
  /// a bound of memory for the planner; null: one each.
  std::vector<int64_t> (*begun)(const Pipe& pipe, int rank) = nullptr;
};

/// Adds a schedule behind the others: at the start of a program, before anything asks for one.
PipelineSchedule add_pipeline_schedule(const ScheduleEntry& entry);

const std::vector<PipelineSchedule>& pipeline_schedules();

/// Schedules that convoy plan tries.
std::vector<PipelineSchedule> planned_schedules(int stages, int64_t micro_batches);

/// ScheduleEntry::begun(), or its default.
std::vector<int64_t> begun_forwards(PipelineSchedule schedule, const Pipe& pipe, int rank);

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

/// Text for --help: each name with its help.
std::string pipeline_schedules_help();

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

/// Programs of a step of all stages for given orders: `cut` is that of the layouts, in which a rank
/// may have several neighbouring virtual stages.
std::vector<Program> pipeline_programs(const Cut& cut, const Orders& orders,
                                       const std::vector<Layout>& layouts,
                                       const StepOptions& options);

}  // namespace convoy::parallel
