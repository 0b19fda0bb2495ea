#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "convoy/comm/engine_registry.h"
#include "convoy/comm/group.h"
#include "convoy/comm/nccl_support.h"
#include "convoy/comm/store.h"

namespace convoy::comm {

/// Facts that a rank tells the others when they meet.
struct Introduction {
  std::string host;  ///< own_host()
  NcclSupport nccl;
};

/// Makes groups of some of a job's ranks. `backend` is one of engine_names(), or "auto": NCCL where
/// every rank of the group has a GPU of its own, shared memory on one host, shared memory inside
/// and Gloo between hosts, Gloo alone where no two ranks share a host. Throws UsageError when the
/// backend cannot be used, CommunicationError when the others do not come within the timeout.
class Connector {
 public:
  /// Opens the store where all ranks meet, and waits for them. Throws UsageError on all ranks,
  /// naming the first of `options` that one does not have like rank 0.
  Connector(const StoreAddress& point, const std::string& backend, at::Device device,
            const std::vector<std::string>& options = {});
  /// Meets the others through a store that is open already.
  Connector(const StoreAddress& point, c10::intrusive_ptr<c10d::Store> store,
            const std::string& backend, at::Device device,
            const std::vector<std::string>& options = {});

  /// Returns the group of these ranks, of which this is one, in this order. Each of them calls it,
  /// with a name that no other group has.
  Group connect(const std::vector<int>& ranks, const std::string& name) const;
  /// Makes a group like connect(), but over Gloo, at any time after the start, with waits of up to
  /// `patience`: for a thread that runs beside the collectives of others.
  Group connect_later(const std::vector<int>& ranks, const std::string& name,
                      std::chrono::milliseconds patience) const;

 private:
  Connector(const StoreAddress& point, const std::string& backend, at::Device device,
            std::chrono::steady_clock::time_point end);
  void meet(const std::vector<std::string>& options);
  StoreAddress point_of(const std::vector<int>& ranks) const;

  StoreAddress point_;
  std::string backend_;
  at::Device device_;
  std::chrono::steady_clock::time_point end_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::vector<Introduction> introductions_;  // by rank
};

/// Returns the group of all ranks at a store address.
Group connect(const StoreAddress& point, const std::string& backend, at::Device device);

}  // namespace convoy::comm
