#pragma once

#include <cstddef>
#include <vector>

#include "convoy/checkpoint/copy_slots.h"
#include "convoy/checkpoint/memory_copies.h"
#include "convoy/comm/group.h"
#include "convoy/parallel/buffers/state.h"

namespace convoy::checkpoint {

/// Bytes of a copy that a rank wrote, side by side in one of its files.
struct CopyRange {
  size_t file = 0;
  size_t begin = 0;
  size_t bytes = 0;
};

/// Adds where the rows of a piece lie in a file whose tensor begins at `home`. Rows that touch
/// become one range.
void add_ranges(std::vector<CopyRange>& ranges, size_t file, size_t home,
                const parallel::StatePiece& piece);

/// Gives each host's slot what the ranks of other hosts wrote into theirs, `ranges` of this rank,
/// over the network. Takes some MiB of memory beside the slots. Collective.
void send_parts(const std::vector<CopyRange>& ranges, const MappedSlot& slot,
                const HostPlace& place, const comm::Group& group);

}  // namespace convoy::checkpoint
