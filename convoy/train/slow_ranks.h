#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "convoy/comm/groups.h"
#include "convoy/train/callback.h"

namespace convoy::train {

/// Counters of this process and its host that tell why a rank computes slowly.
struct HostCounters {
  double wall_seconds = 0;
  double cpu_seconds = 0;    ///< that this process computed
  double stolen = 0;         ///< ticks that the host's cores were taken away by other machines
  double ticks = 0;          ///< of all of the host's cores
  double idle_for_disk = 0;  ///< of these, with nothing to do while a disk worked (iowait)
  double disk_seconds = 0;   ///< that this process's threads waited for disks, where the kernel
                             ///< counts it (sysctl kernel.task_delayacct); else 0
  double faults = 0;         ///< page faults that read a disk
  double switches = 0;       ///< times that another process took a core of this one
};

/// Finds ranks that compute longer than the others: every 20 steps it compares their time without
/// waits with the median of the ranks that hold the same blocks.
class SlowRanks {
 public:
  /// `hosts` of the ranks, in their order; empty: not known.
  SlowRanks(comm::Groups groups, std::vector<std::string> hosts);

  /// Counts a step. Returns warnings on the main rank, one for each slow rank and run. Collective
  /// after every 20th step.
  std::vector<std::string> after_step(const StepTiming& step);

 private:
  std::vector<std::string> compare(int64_t step);
  /// Ranks that hold the same blocks as `rank`, which is one of them.
  std::vector<int> peers_of(int rank) const;

  comm::Groups groups_;
  std::vector<std::string> hosts_;
  int64_t steps_ = 0;  // since the last comparison
  double work_ = 0, data_wait_ = 0;
  HostCounters before_;
  std::set<int> told_;
};

}  // namespace convoy::train
