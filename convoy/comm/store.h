#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

namespace convoy::comm {

/// Where the ranks of a job meet.
struct MeetingPoint {
  int rank = 0;
  int size = 1;
  std::string host = "127.0.0.1";
  int port = 29500;
  bool agent_hosts_store = false;  ///< torchrun's agent serves the store already
  std::chrono::milliseconds timeout{100000};

  bool on_loopback() const { return host == "127.0.0.1" || host == "localhost" || host == "::1"; }
};

/// Connects to the job's key-value store; rank 0 serves it. On one host the server listens on the
/// loopback interface only. Throws CommunicationError naming host and port.
c10::intrusive_ptr<c10d::Store> open_store(const MeetingPoint& point);

}  // namespace convoy::comm
