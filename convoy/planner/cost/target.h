#pragma once

#include <optional>
#include <string>
#include <variant>

#include "convoy/planner/cost/profile_file.h"
#include "convoy/planner/devices/this_host.h"
#include "convoy/planner/time/cluster.h"

namespace convoy::planner {

/// Processors of hosts like this one: blocks run here, and their times are measured.
struct ThisHost {
  std::string profile = {};              ///< file of convoy profile; "": costs are measured
  std::optional<SumsOfHosts> sums = {};  ///< of ranks that have met; none: all would be here
};

/// Devices of known rates: blocks run without arithmetic, and are counted.
struct Devices {
  Cluster cluster;
  std::string how_known = "from data sheets";
  bool reach_this_disk = false;  ///< the run's offload_dir is theirs, and can be measured
};

/// Place where a training would run.
using Target = std::variant<ThisHost, Devices>;

/// Number of ranks that a plan is for by default: the devices, or this processor's cores.
int usual_ranks(const Target& where);

/// Returns the cluster of a training's ranks and the disk of its offload_dir, within its
/// device_memory. `profile`: the content of ThisHost::profile. Measures unknown rates of this host.
/// Throws UsageError where the ranks are more than the devices, nothing is left for tensors, or a
/// device does not compute in the training's type.
Cluster cluster_of(const Target& where, const std::optional<Profile>& profile, int num_ranks,
                   const options::TrainingArguments& arguments);

}  // namespace convoy::planner
