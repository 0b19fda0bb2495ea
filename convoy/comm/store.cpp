#include "convoy/comm/store.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "convoy/base/error.h"

namespace convoy::comm {

namespace {

sockaddr_in address_of(in_addr host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr = host;
  return address;
}

bool is_loopback(in_addr host) {
  return ntohl(host.s_addr) >> 24 == 127;
}

std::optional<in_addr> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0 || found == nullptr) {
    return std::nullopt;
  }
  const auto address = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr;
  ::freeaddrinfo(found);
  return address;
}

/// A socket that listens on one address of this host only; -1 when the host has no such address.
int listen_on(in_addr host, int port) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  auto address = address_of(host, port);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd, 1024) != 0) {
    int error = errno;
    ::close(fd);
    if (error == EADDRNOTAVAIL) return -1;
    fail<CommunicationError>("comm", "cannot listen on {}:{}: {}; try another MASTER_PORT",
                             ::inet_ntoa(host), port, std::strerror(error));
  }
  return fd;
}

/// torch retries a refused connection only every second; look more often.
void wait_for_loopback(in_addr host, int port, std::chrono::milliseconds timeout) {
  auto end = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < end) {
    int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    auto address = address_of(host, port);
    bool open = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::close(fd);
    if (open) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Store> open_store(const MeetingPoint& point) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(point.port);
  options.timeout = point.timeout;
  options.isServer = point.rank == 0 && !point.agent_hosts_store;
  options.waitWorkers = false;
  // A name may stand for loopback here and for something else on the other hosts.
  const auto address = resolve(point.host);
  const bool loopback = address && is_loopback(*address) && point.on_loopback();
  if (options.isServer && address && (loopback || !is_loopback(*address))) {
    const int fd = listen_on(*address, point.port);
    if (fd >= 0) options.masterListenFd = fd;
  }
  if (!options.isServer && loopback) wait_for_loopback(*address, point.port, point.timeout);
  const std::string host = loopback ? ::inet_ntoa(*address) : point.host;
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
    return c10::make_intrusive<c10d::PrefixStore>("convoy", store);
  } catch (const c10::Error& error) {
    fail<CommunicationError>("comm", "rank {} cannot reach the store at {}:{}: {}", point.rank,
                             point.host, point.port, error.what_without_backtrace());
  }
}

}  // namespace convoy::comm
