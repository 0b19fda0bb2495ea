#include "convoy/launch/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::launch {
namespace {

const sockaddr_in* version_4(const sockaddr* address) {
  return address->sa_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(address) : nullptr;
}

const sockaddr_in6* version_6(const sockaddr* address) {
  return address->sa_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(address) : nullptr;
}

bool same_host(const sockaddr* a, const sockaddr* b) {
  if (const auto* v4 = version_4(a); v4 && version_4(b)) {
    return v4->sin_addr.s_addr == version_4(b)->sin_addr.s_addr;
  }
  if (const auto* v6 = version_6(a); v6 && version_6(b)) {
    return std::memcmp(&v6->sin6_addr, &version_6(b)->sin6_addr, sizeof v6->sin6_addr) == 0;
  }
  return false;
}

Descriptor new_socket(const Address& address, int kind) {
  return Descriptor(::socket(address.get()->sa_family, kind | SOCK_CLOEXEC, 0));
}

}  // namespace

std::string Endpoint::to_text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

Endpoint parse_endpoint(std::string_view text, int default_port) {
  Endpoint out{std::string(text), default_port};
  std::string port;
  if (text.starts_with("[")) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) text = "";
    out.host = text.empty() ? "" : text.substr(1, close - 1);
    if (close != std::string_view::npos && text.substr(close + 1).starts_with(":")) {
      port = text.substr(close + 2);
    }
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    out.host = text.substr(0, text.find(':'));
    port = text.substr(text.find(':') + 1);
  }
  int64_t number = default_port;
  const bool good_port =
      port.empty() ? !text.ends_with(":") || text.ends_with("::") : parse_number(port, number);
  if (out.host.empty() || !good_port || number < 1 || number > 65535) {
    fail<UsageError>("launch",
                     "cannot read the endpoint '{}'; expected host:port with a port from 1 to "
                     "65535, such as node7:29400",
                     text);
  }
  out.port = static_cast<int>(number);
  return out;
}

std::vector<Address> Address::resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  std::vector<Address> out;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    Address address;
    std::memcpy(&address.storage_, entry->ai_addr, entry->ai_addrlen);
    address.size_ = entry->ai_addrlen;
    address.set_port(port);
    out.push_back(address);
  }
  ::freeaddrinfo(found);
  return out;
}

Address Address::of_socket(int fd) {
  Address out;
  out.size_ = sizeof out.storage_;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&out.storage_), &out.size_);
  return out;
}

Address Address::of_peer(int fd) {
  Address out;
  out.size_ = sizeof out.storage_;
  ::getpeername(fd, reinterpret_cast<sockaddr*>(&out.storage_), &out.size_);
  return out;
}

std::string Address::host() const {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(get(), size_, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "unknown address";
  }
  return text.data();
}

std::string Address::to_text() const {
  return Endpoint{host(), port()}.to_text();
}

int Address::port() const {
  if (const auto* v4 = version_4(get())) return ntohs(v4->sin_port);
  if (const auto* v6 = version_6(get())) return ntohs(v6->sin6_port);
  return 0;
}

void Address::set_port(int port) {
  // The port lies at the same place in both versions.
  reinterpret_cast<sockaddr_in*>(&storage_)->sin_port = htons(static_cast<uint16_t>(port));
}

bool Address::is_loopback() const {
  if (const auto* v4 = version_4(get())) return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  if (const auto* v6 = version_6(get())) return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
  return false;
}

std::string Address::interface() const {
  if (is_loopback()) return "lo";
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* one = all; one != nullptr && name.empty(); one = one->ifa_next) {
    if (one->ifa_addr != nullptr && same_host(one->ifa_addr, get())) name = one->ifa_name;
  }
  ::freeifaddrs(all);
  return name;
}

Address outward_address() {
  // Connecting a datagram socket sends nothing; it only chooses the way.
  for (const char* far : {"192.0.2.1", "2001:db8::1"}) {
    const Address to = Address::resolve(far, 9).at(0);
    const Descriptor socket = new_socket(to, SOCK_DGRAM);
    if (socket.get() >= 0 && ::connect(socket.get(), to.get(), to.size()) == 0) {
      Address out = Address::of_socket(socket.get());
      out.set_port(0);
      return out;
    }
  }
  return Address::resolve("127.0.0.1", 0).at(0);
}

Descriptor listen_on(const Address& address) {
  Descriptor socket = new_socket(address, SOCK_STREAM);
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), address.get(), address.size()) != 0 ||
      ::listen(socket.get(), 256) != 0) {
    const int reason = errno;
    socket.reset();
    errno = reason;
  }
  return socket;
}

std::vector<Route> routes(const std::vector<Address>& to, const std::string& from) {
  std::vector<Route> out;
  if (from.empty()) {
    for (const Address& address : to) out.push_back({address, std::nullopt});
    return out;
  }
  std::vector<Address> own;
  std::string why = "nobody knows it";
  for (const Address& address : Address::resolve(from, 0)) {
    const Descriptor socket = new_socket(address, SOCK_STREAM);
    if (socket.get() >= 0 && ::bind(socket.get(), address.get(), address.size()) == 0) {
      own.push_back(address);
    } else {
      why = std::strerror(errno);
    }
  }
  if (own.empty()) {
    fail<UsageError>("launch", "cannot use the local address {}: {}; expected one of this host",
                     from, why);
  }
  for (const Address& address : to) {
    const auto same = std::find_if(own.begin(), own.end(),
                                   [&](const Address& each) { return each.same_version(address); });
    if (same != own.end()) out.push_back({address, *same});
  }
  if (out.empty() && !to.empty()) {
    fail<UsageError>("launch",
                     "the local address {} is of another version of the internet protocol than {}; "
                     "expected both of one; try another --local-addr, or --rdzv-endpoint",
                     from, to.front().host());
  }
  return out;
}

Descriptor start_connect(const Route& route) {
  const Address& to = route.to;
  Descriptor socket = new_socket(to, SOCK_STREAM | SOCK_NONBLOCK);
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (const auto& from = route.from) {
    if (::bind(socket.get(), from->get(), from->size()) != 0) {
      socket.reset();
      return socket;
    }
  }
  if (::connect(socket.get(), to.get(), to.size()) != 0 && errno != EINPROGRESS) socket.reset();
  return socket;
}

int free_port(const std::string& host) {
  const auto addresses = Address::resolve(host, 0);
  for (const Address& address : addresses) {
    const Descriptor socket = new_socket(address, SOCK_STREAM);
    if (socket.get() >= 0 && ::bind(socket.get(), address.get(), address.size()) == 0) {
      return Address::of_socket(socket.get()).port();
    }
  }
  fail<CommunicationError>("launch", "no free port on {}: {}; try --master-port", host,
                           addresses.empty() ? "nobody knows it" : std::strerror(errno));
}

void set_nonblocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

}  // namespace convoy::launch
