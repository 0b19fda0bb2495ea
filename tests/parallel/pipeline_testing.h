#pragma once

#include <numeric>
#include <vector>

#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/program/check.h"
#include "convoy/parallel/program/simulate.h"

namespace convoy::parallel {

/// A pipeline of blocks that are all alike, a unit and a bucket per block.
struct Pipeline {
  Pipeline(PipelineSchedule schedule, int num_stages, int64_t num_micro_batches,
           int virtual_stages = 1, int blocks_each = 1, LayoutOptions layout = {})
      : options{.parallelism = {.micro_batches = num_micro_batches}} {
    const int num_blocks = num_stages * virtual_stages * blocks_each;
    ModelTable table;
    std::vector<std::vector<ParamShape>> params;
    for (int64_t block = 0; block < num_blocks; ++block) {
      table.units_of_block.push_back({block});
      params.push_back({{{64}}});
    }
    costs.forward.assign(static_cast<size_t>(num_blocks), 1);
    costs.backward.assign(static_cast<size_t>(num_blocks), 2);
    layout.stages = cut_into_stages(costs.forward, num_stages, virtual_stages);
    const Layout first(table, params, layout);
    for (int s = 0; s < num_stages; ++s) layouts.push_back(first.of_stage(s));
    programs = pipeline_programs(schedule, layouts, options);
  }

  std::vector<RankProgram> ranks() const {
    std::vector<int> stages(layouts.size());
    std::iota(stages.begin(), stages.end(), 0);
    std::vector<RankProgram> out;
    for (size_t s = 0; s < layouts.size(); ++s) out.push_back({programs[s], layouts[s], stages});
    return out;
  }
  std::vector<Alive> check() const { return parallel::check(ranks(), options); }
  Timeline simulate() const { return parallel::simulate(ranks(), costs); }

  StepOptions options;
  Costs costs;
  std::vector<Layout> layouts;
  std::vector<Program> programs;
};

}  // namespace convoy::parallel
