#pragma once

#include <optional>
#include <string>

#include "convoy/launch/hosts/rendezvous.h"
#include "convoy/launch/network.h"
#include "convoy/launch/supervise/agent.h"

namespace convoy::launch {

/// Settings by which this host joins the others.
struct HostOptions {
  Endpoint endpoint;           ///< address of the rendezvous; the host that has it serves it
  std::optional<bool> serves;  ///< says so instead of the address
  bool serves_only = false;    ///< the rendezvous, without ranks of its own
  int node_rank = -1;          ///< -1: whichever is free
  std::string token_file;      ///< of the shared secret; "": CONVOY_TOKEN
  std::string local_address;  ///< by which the others reach this host; "": the one it connects from
  RendezvousOptions rendezvous;  ///< settings of the rendezvous; those of the serving host hold
};

/// Runs the ranks of one of several hosts, as run_ranks() runs those of a single one. Meets the
/// other hosts, starts this host's ranks of the common job, and starts them again whenever the job
/// is formed anew. All hosts return the same code; the host that serves the rendezvous has the
/// report. Throws CommunicationError when the rendezvous cannot be reached or its host is gone,
/// after the ranks here have ended.
int run_ranks_of_host(const LaunchOptions& options, const HostOptions& host);

/// Serves the rendezvous of hosts that run ranks, and runs none: for a host that outlives them, as
/// a login node. Of the options it uses the folder of logs and the calls. Returns the code with
/// which all hosts end. Throws UsageError for numbers that make no sense, and where this host does
/// not have the endpoint's address.
int serve_rendezvous(const LaunchOptions& options, const HostOptions& host);

}  // namespace convoy::launch
