#include "convoy/comm/hosts.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/host_name.h"
#include "convoy/base/text.h"

namespace convoy::comm {

namespace {

/// The same for processes that can hand each other a descriptor over a local socket.
std::string own_host() {
  std::error_code ignored;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", ignored).string();
  std::string boot;
  try {
    boot = trim(read_file("/proc/sys/kernel/random/boot_id"));
  } catch (const std::exception&) {
    boot = host_name();
  }
  return fmt::format("{} {} {}", boot, network, ::geteuid());
}

}  // namespace

std::vector<int> find_hosts(const MeetingPoint& point, const c10::intrusive_ptr<c10d::Store>& store,
                            std::chrono::milliseconds patience) {
  const auto key = [](int rank) { return fmt::format("host/{}", rank); };
  const auto end = std::chrono::steady_clock::now() + patience;
  std::vector<std::string> names;
  std::vector<int> hosts, missing;
  try {
    store->set(key(point.rank), own_host());
    for (int rank = 0; rank < point.size; ++rank) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      try {
        store->wait({key(rank)}, std::max(left, std::chrono::milliseconds(1)));
      } catch (const c10::Error&) {
        if (store->check({key(rank)})) continue;
        missing.push_back(point.name(rank));
        continue;
      }
      if (!missing.empty()) continue;
      const auto name = store->get_to_str(key(rank));
      const auto found = std::find(names.begin(), names.end(), name);
      hosts.push_back(static_cast<int>(found - names.begin()));
      if (found == names.end()) names.push_back(name);
    }
  } catch (const c10::Error&) {  // the store does not answer any more
    throw CommunicationError(
        fmt::format("[comm] start: rank {} of {} lost the store at {}:{}; rank 0 may have failed",
                    point.rank, point.size, point.host, point.port),
        {point.name(0)});
  }
  if (missing.empty()) return hosts;
  throw CommunicationError(
      fmt::format("[comm] start: rank {} did not come to {}:{} within {:g} s; expected {} ranks; "
                  "try to start them all, with the same MASTER_ADDR and MASTER_PORT",
                  fmt::join(missing, ", "), point.host, point.port, point.timeout_seconds(),
                  point.size),
      missing);
}

}  // namespace convoy::comm
