#include "convoy/machine/cores.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/machine/gpus.h"
#include "convoy/machine/system_files.h"

namespace convoy::machine {
namespace {

int within(const CgroupLimits& cgroup, int cores) {
  if (cgroup.cpus > 0 && cgroup.cpus < cores) cores = static_cast<int>(std::floor(cgroup.cpus));
  return std::max(1, cores);
}

}  // namespace

int usable_cores(const CgroupLimits& cgroup, const Limits& limits) {
  return within(cgroup, limits.usable_cpus);
}

int usable_cores() {
  return usable_cores(read_cgroup(), read_limits());
}

int cores_per_rank(int num_ranks) {
  const auto online = cpus_in(line_in("/sys/devices/system/cpu/online"));
  const CgroupLimits cgroup = read_cgroup();
  const Limits limits = read_limits();
  const int all = std::max(limits.usable_cpus, static_cast<int>(online.size()));
  const int share = std::max(1, within(cgroup, all) / std::max(1, num_ranks));
  // OpenMP that pins threads has left this one a single core.
  const bool pinned = std::getenv("OMP_PROC_BIND") || std::getenv("GOMP_CPU_AFFINITY");
  return pinned ? share : std::min(share, usable_cores(cgroup, limits));
}

int resolve_num_ranks(std::string_view text) {
  int64_t number = 0;
  if (parse_number(text, number) && number >= 1 && number <= 4096) return static_cast<int>(number);
  const int gpus = visible_gpus();
  if (text == "gpu") {
    if (gpus > 0) return gpus;
    fail<UsageError>("machine",
                     "-n gpu: no NVIDIA GPU is visible; expected /dev/nvidia0 and a "
                     "CUDA_VISIBLE_DEVICES that does not hide it; try -n cpu");
  }
  if (text == "auto" && gpus > 0) return gpus;
  if (text == "auto" || text == "cpu") return usable_cores();
  fail<UsageError>(
      "machine", "the number of ranks is '{}'; expected a number from 1 to 4096, auto, gpu or cpu",
      text);
}

}  // namespace convoy::machine
