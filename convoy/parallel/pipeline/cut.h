#pragma once

#include <string>
#include <vector>

#include "convoy/parallel/layout.h"
#include "convoy/parallel/parallelism.h"

namespace convoy::parallel {

/// "loop", "v".
const char* name_of(Placement placement);
/// Throws UsageError for another name.
Placement placement(const std::string& name);

/// A virtual stage: neighbouring blocks, and the rank that holds them.
struct VirtualStage {
  int64_t first_block = 0, last_block = 0;
  int stage = 0;

  bool operator==(const VirtualStage&) const = default;
};

/// All virtual stages of a model, in its order.
using Cut = std::vector<VirtualStage>;

/// Cuts blocks of these costs into `num_stages` x `virtual_stages` stretches so that the dearest
/// stage costs as little as can be; of such cuts the one whose dearest stretch costs least, of such
/// the most even one. With three virtual stages and more that holds for small models only: for
/// others a search ends with a cut that moving a block between two stretches does not make better.
/// (Of hundreds of stretches only the dearest one costs as little as can be.) There must be as many
/// blocks as stretches, and two virtual stages for Placement::V.
Cut cut_blocks(const std::vector<double>& costs, int num_stages, int virtual_stages = 1,
               Placement placement = Placement::Loop);

/// Returns the cut with stretches that begin with block 0 and with each of `begins`.
Cut cut_at(const std::vector<int64_t>& begins, int64_t num_blocks, int num_stages,
           Placement placement = Placement::Loop);

/// Stretches of a layout, which knows neighbouring ones of one rank as one only.
Cut cut_of(const Layout& layout);

/// Returns the cut with neighbouring stretches of one rank joined.
Cut joined(const Cut& cut);

/// Blocks of each stage.
Stages stages_of(const Cut& cut);

}  // namespace convoy::parallel
