#pragma once

#include "convoy/comm/group.h"
#include "convoy/comm/store.h"

namespace convoy::comm {

/// Whether the NCCL plugin (libconvoy_nccl.so) lies beside the program and can be opened; else
/// `why` says what is missing.
bool has_nccl(std::string* why = nullptr);

/// A communicator is made by the first collective of all its ranks, which waits without a limit:
/// here all of them come, in the order in which groups are made. A message would be for two of
/// them only. Throws CommunicationError naming those who did not come within the engine's timeout.
void connect_now(Engine& engine, at::Device device);

/// NCCL for a process that computes on `device`, connected with the others. Throws UsageError
/// without the plugin.
std::shared_ptr<Engine> make_nccl_engine(const StoreAddress& point,
                                         const c10::intrusive_ptr<c10d::Store>& store,
                                         at::Device device);

/// A group over NCCL for processes that compute on a GPU of their own each.
/// Throws UsageError without the plugin.
Group make_nccl_group(const StoreAddress& point, const c10::intrusive_ptr<c10d::Store>& store,
                      at::Device device);

}  // namespace convoy::comm
