#include <arpa/inet.h>
#include <netdb.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/doctor.h"
#include "convoy/base/error.h"
#include "convoy/comm/cuda.h"
#include "convoy/comm/nccl/nccl_engine.h"
#include "convoy/launch/error_file.h"

namespace convoy::cli {
namespace {

Engine shared_memory() {
  const int file = ::memfd_create("convoy-doctor", MFD_CLOEXEC);
  if (file < 0) return {"shm", false, fmt::format("memfd_create: {}", std::strerror(errno))};
  const bool grows = ::ftruncate(file, 1 << 20) == 0;
  const int error = errno;
  ::close(file);
  if (!grows) return {"shm", false, fmt::format("memfd cannot grow: {}", std::strerror(error))};
  return {"shm", true, "processes of one host, by shared memory (needs no /dev/shm)"};
}

/// Why a program cannot listen on the loopback interface; "" when it can.
std::string why_no_loopback() {
  const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) return std::strerror(errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound = ::bind(file, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  const std::string why = bound ? "" : std::strerror(errno);
  ::close(file);
  return why;
}

bool resolves(const std::string& host) {
  addrinfo* found = nullptr;
  const bool known = ::getaddrinfo(host.c_str(), nullptr, nullptr, &found) == 0;
  if (known) ::freeaddrinfo(found);
  return known;
}

Engine gloo() {
  if (const auto why = why_no_loopback(); !why.empty()) {
    return {"gloo", false, fmt::format("127.0.0.1 cannot be listened on: {}", why)};
  }
  const auto host = launch::host_name();
  return {"gloo", true,
          resolves(host)
              ? "processes of one host or several, over TCP"
              : fmt::format("processes of one host, over TCP; for several set GLOO_SOCKET_IFNAME: "
                            "the name '{}' is not known to the network",
                            host)};
}

Engine nccl(int num_gpus) {
  if (num_gpus == 0) return {"nccl", false, "no GPU is visible"};
  if (const auto& cuda = comm::open_cuda(); cuda.num_devices == 0) {
    return {"nccl", false, cuda.why_none};
  }
  std::string why;
  if (!comm::has_nccl(&why)) return {"nccl", false, why};
  return {"nccl", true, "processes with a GPU each"};
}

}  // namespace

std::vector<Engine> find_engines(int num_gpus) {
  return {{"threads", true, "DataParallel: threads of one process"},
          shared_memory(),
          gloo(),
          nccl(num_gpus)};
}

std::vector<report::Finding> check_engines(const std::vector<Engine>& engines, int num_gpus) {
  using report::Verdict;
  std::vector<report::Finding> out;
  for (const Engine& engine : engines) {
    if (engine.usable || (engine.name == "nccl" && num_gpus == 0)) continue;
    const bool needed = engine.name == "gloo";  // also a run over another engine meets through it
    out.push_back({needed ? Verdict::Problem : Verdict::Warning, engine.name, engine.text,
                   needed ? "let this process use the loopback interface (lo)" : ""});
  }
  return out;
}

int usable_gpus(int num_gpus) {
  return num_gpus > 0 ? comm::open_cuda().num_devices : 0;
}

}  // namespace convoy::cli
