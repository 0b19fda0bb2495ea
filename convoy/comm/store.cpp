#include "convoy/comm/store.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/within.h"

namespace convoy::comm {

namespace {

using Clock = std::chrono::steady_clock;

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

/// Opens a socket that listens on one address of this host; -1 where the host has no such address.
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

/// Tries to connect. Returns the errno, or 0 once a connection was accepted.
int connect_once(const addrinfo& to, std::chrono::milliseconds patience) {
  const int fd = ::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  int error = ::connect(fd, to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd entry{fd, POLLOUT, 0};
    error = ETIMEDOUT;
    socklen_t size = sizeof error;
    if (::poll(&entry, 1, static_cast<int>(patience.count())) > 0) {
      ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  ::close(fd);
  return error;
}

/// Tries to connect until `end`, more often than torch does. Returns why nothing accepted a
/// connection, or "".
std::string reach(const std::string& host, int port, Clock::time_point end) {
  using std::chrono::milliseconds;
  std::string why;
  for (auto pause = milliseconds(5);; pause = std::min(2 * pause, milliseconds(100))) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int code =
            ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found)) {
      why = ::gai_strerror(code);
    }
    for (const auto* to = found; to != nullptr; to = to->ai_next) {
      const int error = connect_once(*to, std::min(until(end), milliseconds(5000)));
      why = error == 0 ? "" : std::strerror(error);
      if (error == 0) break;
    }
    if (found != nullptr) ::freeaddrinfo(found);
    if (why.empty() || Clock::now() + pause >= end) return why;
    std::this_thread::sleep_for(pause);
  }
}

[[noreturn]] void in_vain(const StoreAddress& point, const std::string& why) {
  throw CommunicationError(
      fmt::format("[comm] start: rank {} of {} met nobody at {}:{} within {:g} s: {}; try to look "
                  "whether rank 0 runs there, or MASTER_ADDR and MASTER_PORT of where it does",
                  point.rank, point.size, point.host, point.port, point.timeout_seconds(), why),
      point.rank == 0 ? std::vector<int>{} : std::vector<int>{point.name(0)});
}

/// Throws where the process may not open enough files: it would wait for ranks that cannot answer.
void check_descriptors() {
  constexpr size_t kNeeded = 12;  // of a store and its connections
  std::array<int, kNeeded> opened{};
  size_t count = 0;
  while (count < kNeeded && (opened[count] = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
    ++count;
  }
  const int error = errno;
  for (size_t i = 0; i < count; ++i) ::close(opened[i]);
  if (count == kNeeded) return;
  fail<UsageError>("comm",
                   "start: this process can open {} more files, too few for the connections of "
                   "its ranks: {}; try ulimit -n 1024",
                   count, std::strerror(error));
}

}  // namespace

c10::intrusive_ptr<c10d::Store> open_store(const StoreAddress& point) {
  check_descriptors();
  const auto end = Clock::now() + point.timeout;
  const QuietC10d quiet;
  const auto named = within(until(end), [host = point.host] { return resolve(host); });
  if (!named) in_vain(point, "the name is not found");
  const auto& address = *named;
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(point.port);
  options.timeout = point.timeout;
  options.isServer = point.rank == 0 && !point.agent_hosts_store;
  options.waitWorkers = false;
  // A name may stand for loopback here and for something else on the other hosts.
  const bool loopback = address && is_loopback(*address) && point.on_loopback();
  const std::string host = loopback ? ::inet_ntoa(*address) : point.host;
  if (options.isServer && address && (loopback || !is_loopback(*address))) {
    const int fd = listen_on(*address, point.port);
    if (fd >= 0) options.masterListenFd = fd;
  }
  if (!options.isServer) {
    const auto why =
        within(until(end), [host, port = point.port, end] { return reach(host, port, end); });
    if (!why || !why->empty()) in_vain(point, why.value_or("no answer"));
  }
  std::string why = address ? "who listens there does not answer as the store of ranks"
                            : "this host does not know the name";
  try {
    auto store = within(
        until(end), [host, options] { return c10::make_intrusive<c10d::TCPStore>(host, options); });
    if (store) {
      return c10::make_intrusive<c10d::PrefixStore>(fmt::format("convoy/{}", point.attempt),
                                                    *store);
    }
  } catch (const c10::Error& error) {
    if (options.isServer) why = first_line(error.what_without_backtrace());
  }
  in_vain(point, why);
}

}  // namespace convoy::comm
