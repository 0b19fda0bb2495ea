#pragma once

#include <numeric>
#include <vector>

#include "convoy/parallel/program/check.h"

namespace convoy::parallel {

/// Programs of the stages of a pipeline of blocks with a parameter of 64 elements each.
struct StagePrograms {
  /// A unit per block; `tied`: the last block reads the first one's unit, too.
  void make_layouts(int64_t num_blocks, const LayoutOptions& options, bool tied = false) {
    ModelTable table;
    for (int64_t block = 0; block < num_blocks; ++block) table.units_of_block.push_back({block});
    if (tied) table.units_of_block.back().push_back(0);
    const Layout::Shapes params(static_cast<size_t>(num_blocks), {{{64}}});
    const Layout first(table, params, options);
    for (size_t s = 0; s < options.stages.size(); ++s) {
      layouts.push_back(first.of_stage(static_cast<int>(s)));
    }
  }

  std::vector<RankProgram> ranks() const {
    std::vector<int> stages(layouts.size());
    std::iota(stages.begin(), stages.end(), 0);
    std::vector<RankProgram> out;
    for (size_t s = 0; s < layouts.size(); ++s) out.push_back({programs[s], layouts[s], stages});
    return out;
  }

  std::vector<Layout> layouts;
  std::vector<Program> programs;
};

}  // namespace convoy::parallel
