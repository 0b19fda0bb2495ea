#include "convoy/comm/store.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cerrno>
#include <cstring>
#include <thread>

#include "convoy/base/error.h"

namespace convoy::comm {

namespace {

sockaddr_in loopback_address(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// A socket that listens on 127.0.0.1 only.
int listen_on_loopback(int port) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  auto address = loopback_address(port);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd, 1024) != 0) {
    int error = errno;
    ::close(fd);
    fail<CommunicationError>("comm", "cannot listen on 127.0.0.1:{}: {}; try another MASTER_PORT",
                             port, std::strerror(error));
  }
  return fd;
}

/// torch retries a refused connection only every second; look more often.
void wait_for_loopback(int port, std::chrono::milliseconds timeout) {
  auto end = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < end) {
    int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    auto address = loopback_address(port);
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
  std::string host = point.host;
  if (point.on_loopback()) {
    host = "127.0.0.1";
    if (options.isServer) {
      options.masterListenFd = listen_on_loopback(point.port);
    } else {
      wait_for_loopback(point.port, point.timeout);
    }
  }
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
    return c10::make_intrusive<c10d::PrefixStore>("convoy", store);
  } catch (const c10::Error& error) {
    fail<CommunicationError>("comm", "rank {} cannot reach the store at {}:{}: {}", point.rank,
                             point.host, point.port, error.what_without_backtrace());
  }
}

}  // namespace convoy::comm
