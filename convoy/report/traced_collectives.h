#pragma once

#include <cstdint>
#include <vector>

#include "convoy/formats/trace_file.h"

namespace convoy::report {

/// Collectives and messages of a traced rank that carry at most `most_bytes`, and more than the
/// class before.
struct CollectivesOfSize {
  int64_t most_bytes = 0;  ///< of one of them; 0: the last class, without a bound
  double per_step = 0;
  double bytes_per_step = 0;
  double seconds_per_step = 0;  ///< in their starts and in waits for them, on the rank's threads
};

/// Collectives by size, the smallest first; classes that have none are left out. Empty where a
/// trace has no whole step.
std::vector<CollectivesOfSize> traced_collectives(const formats::TraceFile& trace);

}  // namespace convoy::report
