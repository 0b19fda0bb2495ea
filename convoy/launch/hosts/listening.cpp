#include "convoy/launch/hosts/listening.h"

#include <cerrno>
#include <cstring>

#include "convoy/base/error.h"

namespace convoy::launch {

namespace {

bool means_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

Listening listen_at(const Endpoint& endpoint, std::optional<bool> serves,
                    const std::string& local_address) {
  Listening out{.endpoint = endpoint};
  int reason = EADDRNOTAVAIL;
  const auto own = local_address.empty() ? std::vector<Address>()
                                         : Address::resolve(local_address, endpoint.port);
  std::vector<Address> open;
  const auto listen = [&](Address address) {
    address.set_port(endpoint.port);
    auto socket = listen_on(address);
    if (socket.get() < 0) {
      reason = errno;
      return;
    }
    out.sockets.push_back(std::move(socket));
    open.push_back(address);
  };
  for (const Address& address : Address::resolve(endpoint.host, endpoint.port)) {
    if (serves == false || (!address.is_own() && serves != true)) continue;
    // A Kubernetes service has an address of its own, and Debian gives a host's own name one that
    // only the host itself can reach.
    const bool unclear =
        !address.is_own() || (address.is_loopback() && !means_loopback(endpoint.host));
    if (unclear && own.empty()) {
      out.guessed = true;
      listen(outward_address());
    } else if (unclear) {
      for (const Address& each : own) listen(each);
    } else {
      listen(address);
    }
    // Another agent of this host has all of them, or this one has.
    out.taken = open.empty() && reason == EADDRINUSE;
    if (out.taken) break;
  }
  if (!open.empty()) {
    const auto ways = routes(open, local_address);
    out.endpoint = {ways.front().to.host(), endpoint.port};
    return out;
  }
  if (serves == true) {
    fail<UsageError>("launch", "cannot serve the rendezvous at {}: {}; try another port or address",
                     endpoint.to_text(), std::strerror(reason));
  }
  return out;
}

}  // namespace convoy::launch
