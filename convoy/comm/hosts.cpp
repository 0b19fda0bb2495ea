#include "convoy/comm/hosts.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "convoy/base/files.h"
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
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) == 0) boot = name.data();
  }
  return fmt::format("{} {} {}", boot, network, ::geteuid());
}

}  // namespace

std::vector<int> find_hosts(const MeetingPoint& point,
                            const c10::intrusive_ptr<c10d::Store>& store) {
  const auto key = [](int rank) { return fmt::format("host/{}", rank); };
  store->set(key(point.rank), own_host());
  std::vector<std::string> names;
  std::vector<int> hosts;
  for (int rank = 0; rank < point.size; ++rank) {
    const auto name = store->get_to_str(key(rank));
    const auto found = std::find(names.begin(), names.end(), name);
    hosts.push_back(static_cast<int>(found - names.begin()));
    if (found == names.end()) names.push_back(name);
  }
  return hosts;
}

}  // namespace convoy::comm
