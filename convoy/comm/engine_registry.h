#pragma once

#include <string>
#include <vector>

#include "convoy/comm/group.h"
#include "convoy/comm/nccl_support.h"
#include "convoy/comm/store.h"

namespace convoy::comm {

/// Ranks of a group that is to be made.
struct Gathering {
  const StoreAddress& point;
  const c10::intrusive_ptr<c10d::Store>& store;
  at::Device device;
  std::vector<NcclSupport> nccl;  ///< of each rank
  std::vector<int> hosts;         ///< number of each rank's
  int num_hosts;
};

/// Entry of the table of engines.
struct EngineEntry {
  const char* name;  ///< value of parallel.backend; null: only ever chosen by auto
  bool needs_gpus;
  /// Returns the reason why it cannot carry this group, as in "backend = shm is for ..."; "" = it
  /// can.
  std::string (*why_not)(const Gathering&);
  Group (*make)(const Gathering&);
};

/// Adds one behind the others, where `auto` does not look: at the start of a program, before
/// anything asks for one.
void add_engine(const EngineEntry& entry);

/// Names that parallel.backend takes besides auto; `without_gpus`: those that also carry ranks
/// without GPUs.
std::vector<std::string> engine_names(bool without_gpus = false);

/// Throws UsageError when `backend` cannot serve ranks that compute on `device`.
void check_backend(const std::string& backend, at::Device device);

/// Returns the group, carried by `backend`, or with auto by the first engine that can. Throws
/// UsageError where the backend cannot.
Group make_group(const Gathering& gathering, const std::string& backend);

}  // namespace convoy::comm
