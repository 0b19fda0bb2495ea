#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "convoy/base/host_name.h"
#include "convoy/doctor/diagnosis.h"

namespace convoy::doctor {
namespace {

EngineCheck shared_memory() {
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

EngineCheck gloo() {
  if (const auto why = why_no_loopback(); !why.empty()) {
    return {"gloo", false, fmt::format("127.0.0.1 cannot be listened on: {}", why)};
  }
  const auto host = host_name();
  return {"gloo", true,
          resolves(host)
              ? "processes of one host or several, over TCP"
              : fmt::format("processes of one host, over TCP; for several set GLOO_SOCKET_IFNAME: "
                            "the name '{}' is not known to the network",
                            host)};
}

}  // namespace

std::vector<EngineCheck> host_engines() {
  return {{"threads", true, "DataParallel: threads of one process"}, shared_memory(), gloo()};
}

std::vector<Finding> check_engines(const std::vector<EngineCheck>& engines, int num_gpus) {
  std::vector<Finding> out;
  for (const EngineCheck& engine : engines) {
    if (engine.usable || (engine.name == "nccl" && num_gpus == 0)) continue;
    const bool needed = engine.name == "gloo";  // also a run over another engine meets through it
    out.push_back({needed ? Severity::Problem : Severity::Warning, engine.name, engine.text,
                   needed ? "let this process use the loopback interface (lo)" : ""});
  }
  return out;
}

std::vector<Finding> check_rates(const std::vector<Rate>& rates) {
  std::vector<Finding> out;
  for (const Rate& rate : rates) {
    if (rate.threads == 1 && rate.bf16_gflops < rate.fp32_gflops) {
      out.push_back({Severity::Note, "bf16",
                     fmt::format("products in bf16 are {:.1f} times slower than in fp32: the "
                                 "processor has no instructions for them",
                                 rate.fp32_gflops / rate.bf16_gflops),
                     "--bf16 saves memory here, not time"});
    }
  }
  if (rates.size() > 1 && rates[1].threads > 1) {
    const double gain = rates[1].fp32_gflops / rates[0].fp32_gflops;
    if (gain < 0.6 * rates[1].threads) {
      out.push_back({Severity::Note, "threads",
                     fmt::format("{} threads compute only {:.1f} times as fast as one: others use "
                                 "the machine, or threads share cores",
                                 rates[1].threads, gain),
                     ""});
    }
  }
  return out;
}

}  // namespace convoy::doctor
