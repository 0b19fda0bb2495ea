#pragma once

#include <string>

#include "convoy/parallel/pipeline/actions.h"

namespace convoy::parallel {

/// "3F0", "3I0", "3W0", "3B0": the virtual stage, forward, input half, weight half or whole
/// backward, the micro-batch.
std::string to_text(const Action& cell);

/// Returns the schedule as torch.distributed.pipelining writes and torchtitan reads it: a line a
/// rank, cells separated by commas.
std::string to_csv(const Orders& orders);

/// A schedule that was read.
struct ReadSchedule {
  Pipe pipe;  ///< with the ranks that the file gives to virtual stages; without costs
  Orders orders;
};

/// Reads such a file's `text`; cells may be empty. Throws UsageError naming `file`, line and cell
/// where it is for another number of ranks or of micro-batches, where a cell is missing, doubled,
/// of a virtual stage of another rank or none at all, where weight halves do not come by ascending
/// micro-batches, where ranks would wait for each other in a circle, and where virtual stages lie
/// neither in a loop nor in a v.
ReadSchedule from_csv(const std::string& text, const std::string& file, int num_ranks,
                      int64_t num_micro_batches);

}  // namespace convoy::parallel
