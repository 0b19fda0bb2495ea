#include "convoy/report/machine.h"

#include <sched.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::report {
namespace {

/// The value of the first line "key<separator>value" of a file, or "".
std::string value_in(const char* path, const std::string& key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find(separator);
    if (at != std::string::npos && trim(line.substr(0, at)) == key)
      return trim(line.substr(at + 1));
  }
  return "";
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

MachineFacts machine_facts() {
  MachineFacts facts;
  utsname name{};
  ::uname(&name);
  facts.host = name.nodename;
  facts.cpu = value_in("/proc/cpuinfo", "model name", ':');
  if (facts.cpu.empty()) facts.cpu = fmt::format("unknown {}", name.machine);
  facts.cores = usable_cores();
  struct sysinfo info{};
  if (::sysinfo(&info) == 0) {
    facts.memory_bytes = static_cast<int64_t>(info.totalram) * static_cast<int64_t>(info.mem_unit);
  }
  std::string distribution = value_in("/etc/os-release", "PRETTY_NAME", '=');
  std::erase(distribution, '"');
  facts.system = fmt::format("{}{}{} {}", distribution, distribution.empty() ? "" : ", ",
                             name.sysname, name.release);
  return facts;
}

std::vector<std::string> machine_lines(const MachineFacts& facts,
                                       const std::map<std::string, std::string>& versions) {
  std::vector<std::string> lines = {
      fmt::format("machine   {}: {}, {} core{}, {} memory", facts.host, facts.cpu, facts.cores,
                  facts.cores == 1 ? "" : "s",
                  human_bytes(static_cast<double>(facts.memory_bytes))),
      fmt::format("system    {}", facts.system)};
  std::vector<std::string> parts;
  for (const auto& [name, version] : versions) parts.push_back(name + " " + version);
  if (!parts.empty()) lines.push_back(fmt::format("versions  {}", join(parts)));
  return lines;
}

}  // namespace convoy::report
