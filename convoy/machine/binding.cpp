#include "convoy/machine/binding.h"

#include <sched.h>

#include <algorithm>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::machine {
namespace fs = std::filesystem;

Binding parse_binding(std::string_view text) {
  if (text == "none") return Binding::kNone;
  if (text == "cores" || text == "exclusive") return Binding::kCores;
  if (text == "numa" || text == "node") return Binding::kNuma;
  fail<UsageError>("machine", "--bind is '{}'; expected none, cores or numa", text);
}

std::vector<int> parse_cores(std::string_view text) {
  std::vector<int> out;
  if (trim(text).empty()) return out;
  for (const std::string& part : split(trim(text), ',')) {
    const size_t dash = part.find('-');
    int64_t low = 0;
    int64_t high = 0;
    if (!parse_number(part.substr(0, dash), low) ||
        !parse_number(dash == std::string::npos ? part : part.substr(dash + 1), high) || low < 0 ||
        high < low || high >= CPU_SETSIZE) {
      fail<UsageError>("machine", "cannot read the cores '{}'; expected a form like 0-3,8", text);
    }
    for (int64_t core = low; core <= high; ++core) out.push_back(static_cast<int>(core));
  }
  return out;
}

std::string cores_text(const std::vector<int>& cores) {
  return compact_numbers(cores, ",");
}

std::vector<int> own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> out;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return out;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) out.push_back(core);
  }
  return out;
}

std::vector<std::vector<int>> numa_nodes(const std::vector<int>& allowed, const fs::path& system) {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(system, ignored)) {
    const std::string name = entry.path().filename().string();
    int64_t number = 0;
    if (name.starts_with("node") && parse_number(name.substr(4), number)) {
      folders.push_back(entry.path());
    }
  }
  std::sort(folders.begin(), folders.end(), [](const fs::path& a, const fs::path& b) {
    const std::string left = a.string();
    const std::string right = b.string();
    return std::pair(left.size(), left) < std::pair(right.size(), right);
  });
  std::vector<std::vector<int>> out;
  for (const fs::path& folder : folders) {
    std::ifstream file(folder / "cpulist");
    std::string line;
    std::getline(file, line);
    std::vector<int> cores = parse_cores(line);
    std::erase_if(cores, [&](int core) {
      return std::find(allowed.begin(), allowed.end(), core) == allowed.end();
    });
    if (!cores.empty()) out.push_back(std::move(cores));  // a node may have memory only
  }
  if (out.empty()) out.push_back(allowed);
  return out;
}

std::vector<std::vector<int>> share_cores(Binding binding, int num_ranks,
                                          const std::vector<std::vector<int>>& nodes) {
  const auto ranks = static_cast<size_t>(num_ranks);
  std::vector<std::vector<int>> out(ranks);
  if (binding == Binding::kNone) return out;
  std::vector<int> all;
  for (const auto& node : nodes) all.insert(all.end(), node.begin(), node.end());
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (binding == Binding::kNuma) {
      out[rank] = nodes[rank * nodes.size() / ranks];
    } else if (ranks >= all.size()) {
      out[rank] = {all[rank * all.size() / ranks]};
    } else {
      out[rank].assign(all.begin() + static_cast<int64_t>(rank * all.size() / ranks),
                       all.begin() + static_cast<int64_t>((rank + 1) * all.size() / ranks));
    }
  }
  return out;
}

}  // namespace convoy::machine
