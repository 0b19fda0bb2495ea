#pragma once

#include <string>
#include <vector>

#include "convoy/schedule/program.h"

namespace convoy::schedule {

/// In which order a stage of a pipeline computes. Each gives the same sums; they differ in how long
/// stages stand still, and in how many micro-batches are kept for backward.
enum class PipelineSchedule {
  GPipe,        ///< all forwards, then all backwards (Huang et al., 2019)
  OneFOneB,     ///< one forward, one backward in turns (PipeDream, Narayanan et al., 2019)
  Interleaved,  ///< the same where each stage holds several rows of blocks (Megatron-LM, Narayanan
                ///< et al., 2021)
};

/// "gpipe", "1f1b", "interleaved".
const char* name_of(PipelineSchedule schedule);
/// Throws UsageError for another name.
PipelineSchedule pipeline_schedule(const std::string& name);

/// Cuts blocks of these costs into `num_stages` x `rounds` rows of neighbours, the dearest of which
/// costs as little as can be; stage s gets the rows s, s + num_stages and so on. There must be as
/// many blocks as rows.
Stages cut_into_stages(const std::vector<double>& costs, int num_stages, int rounds = 1);

/// What a stage computes in a step, in its order.
std::vector<Task> pipeline_tasks(PipelineSchedule schedule, const Layout& layout,
                                 int64_t num_micro_batches);

/// A step of all stages, given what each keeps. Throws UsageError where micro-batches do not make
/// whole groups, which interleaved stages need.
std::vector<Program> pipeline_programs(PipelineSchedule schedule,
                                       const std::vector<Layout>& layouts,
                                       const StepOptions& options);

}  // namespace convoy::schedule
