#pragma once

#include <string>

#include "convoy/comm/group.h"
#include "convoy/comm/store.h"

namespace convoy::comm {

/// Throws UsageError when `backend` cannot serve ranks that compute on `device`.
void check_backend(const std::string& backend, at::Device device);

/// Makes the group of all ranks of a meeting point, which compute on `device` each.
/// `backend` is "nccl", "gloo", "shm" or "auto": NCCL where every rank has a GPU of its own, shared
/// memory on one host, shared memory inside and Gloo between hosts, Gloo alone where no two ranks
/// share a host.
/// Throws UsageError when the backend cannot be used, CommunicationError when the others do not
/// come within the timeout.
Group connect(const MeetingPoint& point, const std::string& backend, at::Device device);

/// The same through a store that is open already; each group needs a prefix of its own.
Group connect(const MeetingPoint& point, const c10::intrusive_ptr<c10d::Store>& store,
              const std::string& backend, at::Device device);

}  // namespace convoy::comm
