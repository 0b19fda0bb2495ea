#pragma once

#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/program/simulate.h"
#include "tests/parallel/stage_programs.h"

namespace convoy::parallel {

/// A pipeline of blocks that are all alike, a unit and a bucket per block.
struct Pipeline : StagePrograms {
  Pipeline(PipelineSchedule schedule, int num_stages, int64_t num_micro_batches,
           int virtual_stages = 1, int blocks_each = 1, LayoutOptions layout = {})
      : options{.parallelism = {.micro_batches = num_micro_batches}} {
    const int num_blocks = num_stages * virtual_stages * blocks_each;
    costs.forward.assign(static_cast<size_t>(num_blocks), 1);
    costs.backward.assign(static_cast<size_t>(num_blocks), 2);
    layout.stages = stages_of(cut_blocks(costs.forward, num_stages, virtual_stages));
    make_layouts(num_blocks, layout);
    programs = pipeline_programs(schedule, layouts, options);
  }

  std::vector<Alive> check() const { return parallel::check(ranks(), options); }
  Timeline simulate() const { return parallel::simulate(ranks(), costs); }

  StepOptions options;
  Costs costs;
};

}  // namespace convoy::parallel
