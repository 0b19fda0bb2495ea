#include "convoy/comm/hosts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "convoy/base/files.h"
#include "convoy/base/host_name.h"
#include "convoy/base/text.h"

namespace convoy::comm {

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

std::vector<int> number_hosts(const std::vector<std::string>& host_of_rank) {
  std::vector<std::string> names;
  std::vector<int> hosts;
  for (const auto& name : host_of_rank) {
    const auto found = std::find(names.begin(), names.end(), name);
    hosts.push_back(static_cast<int>(found - names.begin()));
    if (found == names.end()) names.push_back(name);
  }
  return hosts;
}

}  // namespace convoy::comm
