#include "cli/tell_once.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "convoy/launch/spawn.h"
#include "convoy/report/progress_output.h"

namespace convoy::cli {
namespace {

constexpr std::chrono::seconds kPatience{3};

struct Name {
  sockaddr_un address{};
  socklen_t size = 0;
};

/// Returns a name in no folder, which goes with the process that has it. Ranks of one launcher have
/// one parent.
Name name_of(const std::string& mistake, const launch::RankEnvironment& environment) {
  const auto text = fmt::format("convoy-mistake-{}-{}-{}-{:x}", ::getuid(), ::getppid(),
                                environment.master_port, std::hash<std::string>()(mistake));
  Name out;
  out.address.sun_family = AF_UNIX;
  std::memcpy(out.address.sun_path + 1, text.data(), text.size());
  out.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return out;
}

bool is_same_user(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == ::getuid();
}

/// Whether another rank has reported the mistake. The socket's owner may not listen yet.
bool is_told(int socket, const sockaddr* address, socklen_t size) {
  for (int i = 0; i < 20; ++i) {
    if (::connect(socket, address, size) == 0) return is_same_user(socket);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

void wait_for(int others, int socket) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + kPatience;
  while (others > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    pollfd entry{socket, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) <= 0) return;
    const launch::Descriptor visitor(::accept4(socket, nullptr, nullptr, SOCK_CLOEXEC));
    others -= visitor.get() >= 0 && is_same_user(visitor.get());
  }
}

}  // namespace

void tell_once(const std::string& mistake, const std::string& line,
               const launch::RankEnvironment& environment) {
  const auto name = name_of(mistake, environment);
  const auto* address = reinterpret_cast<const sockaddr*>(&name.address);
  const int others = environment.local_world_size - 1;
  const launch::Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const bool first = ::bind(socket.get(), address, name.size) == 0 &&
                     ::listen(socket.get(), std::max(1, others)) == 0;
  if (!first && is_told(socket.get(), address, name.size)) return;
  report::show_progress(line + "\n", stderr);
  if (first) wait_for(others, socket.get());
}

}  // namespace convoy::cli
