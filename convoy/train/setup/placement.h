#pragma once

#include <string>
#include <vector>

#include "convoy/train/callback.h"
#include "convoy/train/setup/job.h"

namespace convoy::train {

/// Where all ranks run, by rank. To be called by every rank; what is long is cut.
std::vector<Placement> gather_placements(const Job& job);

/// A table of the placements, or "" where it would tell nothing: all ranks on one host, on CPU,
/// with the same cores.
std::string placements_table(const std::vector<Placement>& placements);

}  // namespace convoy::train
