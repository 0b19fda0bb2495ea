#pragma once

#include <string>
#include <vector>

#include "convoy/train/callback.h"
#include "convoy/train/setup/job.h"

namespace convoy::train {

/// Places of all ranks, by rank. Every rank calls it; long texts are cut.
std::vector<Placement> gather_placements(const Job& job);

/// A table of the placements, or "" where it would tell nothing: all ranks on one host, on CPU,
/// with the same cores.
std::string placements_table(const std::vector<Placement>& placements);

}  // namespace convoy::train
