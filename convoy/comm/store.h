#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace convoy::comm {

/// Address of the store where the ranks of a job join.
struct StoreAddress {
  int rank = 0;
  int size = 1;
  int ranks_on_host = 0;  ///< of the job, also those of other groups; 0: as many as meet
  std::string host = "127.0.0.1";
  int port = 29500;
  bool agent_hosts_store = false;  ///< torchrun's agent serves the store already
  std::string job;                 ///< name of the job; "": nobody told
  int attempt = 0;  ///< starts of the ranks before this one, whose keys such a store still holds
  std::chrono::milliseconds timeout{100000};  ///< for all to come, and for a collective later
  std::chrono::milliseconds patience{0};      ///< for a collective, over Gloo; 0: the timeout
  std::vector<int> names;  ///< of the ranks in messages: those of the whole job; empty: as they are

  int name(int r) const { return names.empty() ? r : names.at(static_cast<size_t>(r)); }

  double timeout_seconds() const { return static_cast<double>(timeout.count()) / 1000; }

  bool on_loopback() const { return host == "localhost" || host.rfind("127.", 0) == 0; }
};

/// Connects to the job's key-value store; rank 0 serves it, on the address of `host` only where
/// that is one of its own: on one host, loopback. Each attempt has keys of its own. Throws
/// CommunicationError naming host and port, after the timeout at the latest.
c10::intrusive_ptr<c10d::Store> open_store(const StoreAddress& point);

}  // namespace convoy::comm
