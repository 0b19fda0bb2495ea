#pragma once

#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "tests/parallel/stage_programs.h"

namespace convoy::parallel {

/// A step of all stages of a cut, with a unit per block, and a bucket unless `layout` says more;
/// `tied`: the last block reads the first one's unit, too.
struct PipelineStep : StagePrograms {
  PipelineStep(Cut cut_as, const Orders& orders, const StepOptions& how,
               LayoutOptions layout = {.parallelism = {.bucket_bytes = 0}}, bool tied = false)
      : cut(std::move(cut_as)), options(how) {
    layout.stages = stages_of(cut);
    make_layouts(cut.back().last_block + 1, layout, tied);
    programs = pipeline_programs(cut, orders, layouts, options);
  }

  std::vector<Alive> check() const { return parallel::check(ranks(), options); }
  /// What check() says of one rank's program in place of its own.
  std::string refusal(size_t rank, const Program& program) const {
    auto all = ranks();
    std::vector<RankProgram> changed;
    for (size_t r = 0; r < all.size(); ++r) {
      changed.push_back({r == rank ? program : programs[r], layouts[r], all[r].pipeline});
    }
    try {
      parallel::check(changed, options);
    } catch (const InternalError& error) {
      return error.what();
    }
    return "accepted";
  }

  Cut cut;
  StepOptions options;
};

/// So many blocks in each virtual stage of a pipe.
inline Cut cut_for(const Pipe& pipe, int64_t blocks_each) {
  Cut out;
  for (const int rank : pipe.rank_of) {
    const int64_t first = out.empty() ? 0 : out.back().last_block + 1;
    out.push_back({first, first + blocks_each - 1, rank});
  }
  return out;
}

}  // namespace convoy::parallel
