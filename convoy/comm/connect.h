#pragma once

#include <chrono>
#include <string>
#include <vector>

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

/// Makes groups of some of a job's ranks.
class Connector {
 public:
  /// Opens the store where all ranks meet.
  Connector(const MeetingPoint& point, const std::string& backend, at::Device device);

  /// The group of these ranks, of which this is one, in this order. Each of them calls it, with a
  /// name that no other group has.
  Group connect(const std::vector<int>& ranks, const std::string& name) const;
  /// The same at any time after the start, over Gloo: for a thread beside the others' collectives.
  Group connect_later(const std::vector<int>& ranks, const std::string& name) const;

 private:
  Group meet_some(const std::vector<int>& ranks, const std::string& name,
                  const std::string& backend, at::Device device,
                  std::chrono::steady_clock::time_point end) const;

  MeetingPoint point_;
  std::string backend_;
  at::Device device_;
  std::chrono::steady_clock::time_point end_;
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace convoy::comm
