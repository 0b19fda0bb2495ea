#pragma once

#include "convoy/nn/block.h"
#include "convoy/schedule/pipeline.h"
#include "convoy/schedule/simulate.h"

namespace convoy::parallel {

struct PipelineOptions {
  schedule::PipelineSchedule schedule = schedule::PipelineSchedule::OneFOneB;
  int rounds = 2;                    ///< rows of blocks a stage, where interleaved
  std::vector<int64_t> splits = {};  ///< first block of each row but the first; empty: by cost
};

/// What each block costs: the elements of the matrices that it multiplies with. Tables that are
/// only looked up cost nothing; what several blocks read is the last one's, which multiplies.
std::vector<double> block_costs(const nn::BlockList& blocks);

/// Which blocks each of `num_stages` stages holds. Throws UsageError naming the blocks where they
/// do not go into so many, or not as asked.
schedule::Stages cut_into_stages(const nn::BlockList& blocks, int num_stages,
                                 const PipelineOptions& options);

/// The same for a forward, and twice as much for a backward: of the inputs and of the weights.
schedule::Costs product_costs(const nn::BlockList& blocks);

/// What all stages keep and run, by stage, with the proof that it is sound.
struct StagePrograms {
  std::vector<schedule::Layout> layouts;
  std::vector<schedule::Program> steps, forwards;
  std::vector<schedule::Alive> alive;  ///< at most in a step

  /// A step as it would go if what blocks cost were all.
  schedule::Timeline timeline(const schedule::Costs& costs) const;
};

/// `layout`: of any stage; without stages there is one. Without training there are no steps.
StagePrograms make_programs(const schedule::Layout& layout, schedule::PipelineSchedule schedule,
                            const schedule::StepOptions& options, bool trains = true);

}  // namespace convoy::parallel
