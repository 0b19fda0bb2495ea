#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/checkpoint/memory_copies.h"

namespace convoy::checkpoint {

/// Copies in memory that each host of a job holds, by number of the host.
struct HeldCopies {
  std::vector<std::vector<int64_t>> steps;  ///< of them, at most two
  std::vector<int> first_rank;

  /// The furthest step of any host; -1: there is none.
  int64_t newest() const;
  /// Whether a host, or each of them, holds the copy of a step.
  bool holds(int host, int64_t step) const;
  bool all_hold(int64_t step) const;
  /// Steps that all hosts hold, the furthest first.
  std::vector<int64_t> common() const;
};

/// Tells all ranks what each host holds: this one `steps`. Collective.
HeldCopies tell_copies(const std::vector<int64_t>& steps, const HostPlace& place,
                       const comm::Group& group);

/// Brings the copy of a step from one of the hosts that hold it to the others, in place of their
/// older one. Collective. Throws FileError on all ranks.
void bring_copy(int64_t step, const HeldCopies& held, const CopySlots& slots,
                const HostPlace& place, const comm::Group& group);

/// Throws FileError, on all ranks, unless each host's copy of a step is as it was written. The
/// ranks of a host share the work. Collective.
void check_held(int64_t step, const CopySlots& slots, const HostPlace& place,
                const comm::Group& group);

}  // namespace convoy::checkpoint
