#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/launch/spawn.h"

// Addresses and sockets of the rendezvous.
namespace convoy::launch {

struct Endpoint {
  std::string host;
  int port = 0;

  std::string to_text() const;  ///< "node7:29400", "[fe80::1]:29400"
};

/// Reads "host:port", "host", "[v6 address]:port". Throws UsageError.
Endpoint parse_endpoint(std::string_view text, int default_port);

/// An address of the internet protocols, version 4 or 6, with its port.
class Address {
 public:
  /// Addresses of a name; empty when nobody knows it.
  static std::vector<Address> resolve(const std::string& host, int port);
  static Address of_socket(int fd);  ///< address of this end
  static Address of_peer(int fd);    ///< the other end

  std::string host() const;     ///< digits of the address
  std::string to_text() const;  ///< with the port
  int port() const;
  bool is_loopback() const;
  /// The network interface that has this address, "" when none of this host has it.
  std::string interface() const;
  bool is_own() const { return is_loopback() || !interface().empty(); }
  bool same_version(const Address& other) const {
    return get()->sa_family == other.get()->sa_family;
  }

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  void set_port(int port);

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

/// The address from which this host would reach others far away; a loopback address when it
/// cannot.
Address outward_address();

/// A socket that listens on this address alone; one that is not open (get() < 0) when it is taken
/// or not ours, with errno set.
Descriptor listen_on(const Address& address);

/// An address, and the own one from which to reach it; none: whichever the system chooses.
struct Route {
  Address to;
  std::optional<Address> from;
};

/// The ways to one host that has all of these addresses, from the own address `from`, a name or
/// digits, unless that is "": between addresses of one version of the protocol, in the order of
/// `to`. Throws UsageError where none of `from` is of this host, or goes with one of `to`.
std::vector<Route> routes(const std::vector<Address>& to, const std::string& from);

/// Starts to connect. Not open when it failed at once.
Descriptor start_connect(const Route& route);

/// Port that nobody uses now. Throws CommunicationError when there is none.
int free_port(const std::string& host);

void set_nonblocking(int fd);

}  // namespace convoy::launch
