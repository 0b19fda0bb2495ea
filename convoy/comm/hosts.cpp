#include "convoy/comm/hosts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <unordered_map>

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
  std::unordered_map<std::string_view, int> numbers;
  std::vector<int> hosts;
  for (const auto& name : host_of_rank) {
    hosts.push_back(numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second);
  }
  return hosts;
}

}  // namespace convoy::comm
