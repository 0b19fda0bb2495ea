#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/launch/network.h"

namespace convoy::launch {

/// Sockets and address of a rendezvous on this host, if it listens here.
struct Listening {
  std::vector<Descriptor> sockets;  ///< none where another serves
  Endpoint endpoint;     ///< the address where this host meets it, or else the one that was given
  bool guessed = false;  ///< the name does not say at which address
  bool taken = false;    ///< somebody listens at an address of this host
};

/// Listens on all addresses of the endpoint that this host has, IPv4 and IPv6, since others may
/// have only one of them. `local_address`: how others reach it; "" = the address of the route to
/// them. Throws UsageError where `serves` says that this host has the endpoint, and it cannot
/// listen there.
Listening listen_at(const Endpoint& endpoint, std::optional<bool> serves,
                    const std::string& local_address);

}  // namespace convoy::launch
