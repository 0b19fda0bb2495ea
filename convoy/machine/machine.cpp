#include "convoy/machine/machine.h"

#include <sys/utsname.h>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/machine/host.h"
#include "convoy/machine/limits.h"

namespace convoy::machine {

MachineFacts machine_facts() {
  const Host host = read_host();
  MachineFacts facts;
  utsname name{};
  ::uname(&name);
  facts.host = host.name.empty() ? name.nodename : host.name;
  facts.cpu = host.cpu.empty() ? fmt::format("unknown {}", name.machine) : host.cpu;
  facts.cores = usable_cpus();
  facts.memory_bytes = host.memory_bytes;
  facts.system = host.system;
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

}  // namespace convoy::machine
