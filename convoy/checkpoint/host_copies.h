#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "convoy/checkpoint/memory_copies.h"

namespace convoy::checkpoint {

/// Steps of the copies in memory that each host of a job holds.
struct HeldCopies {
  std::vector<std::vector<int64_t>> steps;  ///< [host]: at most two
  std::vector<int> first_rank;              ///< [host]

  /// Whether a host, or each of them, holds the copy of a step.
  bool holds(int host, int64_t step) const;
  bool all_hold(int64_t step) const;
  /// Steps that any host holds, the furthest first.
  std::vector<int64_t> all() const;
};

/// Tells all ranks what each host holds: this one `steps`. Collective.
HeldCopies tell_copies(const std::vector<int64_t>& steps, const HostPlace& place,
                       const comm::Group& group);

/// Hosts whose copy of a step is not as it was written.
struct BrokenCopies {
  std::vector<int> hosts;
  std::string why;  ///< of the first of them; names the file or the tensor
};

/// Checks the copy of a step on each host that holds it; the ranks of a host share the work.
/// Collective.
BrokenCopies find_broken(int64_t step, const HeldCopies& held, const CopySlots& slots,
                         const HostPlace& place, const comm::Group& group);

/// Brings the copy of a step from the first of the hosts that hold it to the others, in place of
/// their older one. `own`: small files that each host writes itself. Collective. Throws FileError
/// on all ranks.
void bring_copy(int64_t step, const HeldCopies& held, const CopySlots& slots,
                const HostPlace& place, const std::map<std::string, std::string>& own,
                const comm::Group& group);

/// Whether all hosts have a whole copy of a step, and what a person should know.
struct SharedCopy {
  bool is_whole = false;
  std::vector<std::string> warnings;
};

/// Gives each host a whole copy of a step that any of them holds. Removes a broken copy, on its own
/// host alone. A whole one comes to the hosts that lack it, and is checked there, too. `own`: as
/// for bring_copy(). Collective.
SharedCopy share_copy(int64_t step, HeldCopies held, const CopySlots& slots, const HostPlace& place,
                      const std::map<std::string, std::string>& own, const comm::Group& group);

}  // namespace convoy::checkpoint
