#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace convoy::comm {

/// Where the ranks of a job meet.
struct MeetingPoint {
  int rank = 0;
  int size = 1;
  std::string host = "127.0.0.1";
  int port = 29500;
  bool agent_hosts_store = false;  ///< torchrun's agent serves the store already
  std::chrono::milliseconds timeout{100000};
  std::vector<int> names;  ///< of the ranks in messages: those of the whole job; empty: as they are

  int name(int r) const { return names.empty() ? r : names.at(static_cast<size_t>(r)); }

  bool on_loopback() const { return host == "localhost" || host.rfind("127.", 0) == 0; }
};

/// Connects to the job's key-value store; rank 0 serves it, on the address of `host` only where
/// that is one of its own: on one host, loopback. Throws CommunicationError naming host and port.
c10::intrusive_ptr<c10d::Store> open_store(const MeetingPoint& point);

}  // namespace convoy::comm
