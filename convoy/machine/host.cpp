#include "convoy/machine/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "convoy/base/text.h"
#include "convoy/machine/cores.h"
#include "convoy/machine/system_files.h"

namespace convoy::machine {
namespace {

namespace fs = std::filesystem;

/// Value in bytes of a line such as "MemTotal:  16384 kB".
int64_t kilobytes_in(const fs::path& file, const std::string& key) {
  return leading_number(value_in(file, key, ':'), 0) * 1024;
}

std::vector<std::string> instruction_sets(const fs::path& cpuinfo) {
  static const std::pair<const char*, const char*> kNames[] = {{"avx2", "AVX2"},
                                                               {"avx512f", "AVX-512"},
                                                               {"avx512_bf16", "AVX512-BF16"},
                                                               {"avx512_fp16", "AVX512-FP16"},
                                                               {"amx_bf16", "AMX-BF16"},
                                                               {"asimd", "NEON"},
                                                               {"sve", "SVE"},
                                                               {"sve2", "SVE2"},
                                                               {"bf16", "BF16"}};
  std::string flags = value_in(cpuinfo, "flags", ':');
  if (flags.empty()) flags = value_in(cpuinfo, "Features", ':');
  const auto all = split(flags, ' ');
  std::vector<std::string> out;
  for (const auto& [flag, name] : kNames) {
    if (std::find(all.begin(), all.end(), flag) != all.end()) out.push_back(name);
  }
  return out;
}

/// Name of the processor. Arm's tell numbers only: of who makes them, and of the part.
std::string processor_name(const fs::path& cpuinfo) {
  const auto name = value_in(cpuinfo, "model name", ':');
  const auto maker = value_in(cpuinfo, "CPU implementer", ':');
  const auto part = value_in(cpuinfo, "CPU part", ':');
  if (!name.empty() || maker.empty()) return name;
  static const std::pair<const char*, const char*> kParts[] = {
      {"0xd08", "Cortex-A72"},  {"0xd0b", "Cortex-A76"},  {"0xd0c", "Neoverse N1"},
      {"0xd40", "Neoverse V1"}, {"0xd49", "Neoverse N2"}, {"0xd4f", "Neoverse V2"},
      {"0xd84", "Neoverse V3"}, {"0xd8e", "Neoverse N3"}};
  for (const auto& [number, called] : kParts) {
    if (maker == "0x41" && part == number) return std::string("Arm ") + called;
  }
  return fmt::format("Arm, implementer {}, part {}", maker, part);
}

/// Counts sockets, cores and threads among the CPUs that are online.
void read_topology(const fs::path& folder, Host& host) {
  std::set<int64_t> sockets;
  std::set<std::pair<int64_t, int64_t>> cores;
  for (const int cpu : cpus_in(line_in(folder / "online"))) {
    ++host.threads;
    const auto topology = folder / fmt::format("cpu{}/topology", cpu);
    const auto socket = leading_number(line_in(topology / "physical_package_id"), 0);
    sockets.insert(socket);
    cores.emplace(socket, leading_number(line_in(topology / "core_id"), cpu));
  }
  host.sockets = static_cast<int>(sockets.size());
  host.cores = static_cast<int>(cores.size());
}

/// Word in brackets of a line such as "always [madvise] never".
std::string chosen(const std::string& line) {
  const size_t open = line.find('['), close = line.find(']');
  return open < close && close != std::string::npos ? line.substr(open + 1, close - open - 1) : "";
}

std::string system_name(const fs::path& root) {
  std::vector<std::string> parts;
  std::string distribution = value_in(root / "etc/os-release", "PRETTY_NAME", '=');
  std::erase(distribution, '"');
  if (!distribution.empty()) parts.push_back(distribution);
  const auto kernel = root / "proc/sys/kernel";
  const auto release = trim(line_in(kernel / "ostype") + " " + line_in(kernel / "osrelease"));
  if (!release.empty()) parts.push_back(release);
  return join(parts);
}

}  // namespace

std::vector<NumaNode> read_nodes(const fs::path& root) {
  const auto folder = root / "sys/devices/system/node";
  std::vector<NumaNode> nodes;
  for (const std::string& name : names_in(folder)) {
    int64_t id = 0;
    if (!name.starts_with("node") || !parse_number(name.substr(4), id)) continue;
    NumaNode node;
    node.id = static_cast<int>(id);
    node.cpus = cpus_in(line_in(folder / name / "cpulist"));
    const auto memory = folder / name / "meminfo";
    node.memory_bytes = kilobytes_in(memory, fmt::format("Node {} MemTotal", id));
    node.free_bytes = kilobytes_in(memory, fmt::format("Node {} MemFree", id));
    std::istringstream distances(line_in(folder / name / "distance"));
    for (int distance = 0; distances >> distance;) node.distances.push_back(distance);
    nodes.push_back(std::move(node));
  }
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return nodes;
}

Host read_host(const fs::path& root) {
  Host host;
  host.name = line_in(root / "proc/sys/kernel/hostname");
  host.system = system_name(root);
  const auto cpuinfo = root / "proc/cpuinfo", meminfo = root / "proc/meminfo";
  host.cpu = processor_name(cpuinfo);
  host.instructions = instruction_sets(cpuinfo);
  read_topology(root / "sys/devices/system/cpu", host);
  host.nodes = read_nodes(root);
  host.memory_bytes = kilobytes_in(meminfo, "MemTotal");
  host.available_bytes = kilobytes_in(meminfo, "MemAvailable");
  host.swap_bytes = kilobytes_in(meminfo, "SwapTotal");
  host.huge_pages = chosen(line_in(root / "sys/kernel/mm/transparent_hugepage/enabled"));
  host.overcommit =
      static_cast<int>(leading_number(line_in(root / "proc/sys/vm/overcommit_memory"), -1));
  return host;
}

std::vector<std::string> machine_lines(const Host& host, int num_cores,
                                       const std::map<std::string, std::string>& versions) {
  std::vector<std::string> lines = {
      fmt::format("machine   {}: {}, {}, {} memory", host.name,
                  host.cpu.empty() ? "unknown processor" : host.cpu, plural(num_cores, "core"),
                  human_bytes(host.memory_bytes)),
      fmt::format("system    {}", host.system)};
  std::vector<std::string> parts;
  for (const auto& [name, version] : versions) parts.push_back(name + " " + version);
  if (!parts.empty()) lines.push_back(fmt::format("versions  {}", join(parts)));
  return lines;
}

std::vector<std::string> machine_lines(const std::map<std::string, std::string>& versions) {
  return machine_lines(read_host(), usable_cores(), versions);
}

}  // namespace convoy::machine
