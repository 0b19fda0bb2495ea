#include "convoy/doctor/findings.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/text.h"
#include "convoy/machine/cores.h"

namespace convoy::doctor {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kFewFiles = 4096;
constexpr int64_t kFewProcesses = 4096;

bool fenced(int64_t limit, int64_t whole) {
  return limit > 0 && (whole == 0 || limit < whole);
}

Finding check_files(const machine::Limits& limits) {
  Finding out{Severity::Ok, "open files", "unlimited", ""};
  if (!limits.open_files) return out;
  out.text = human_count(*limits.open_files);
  if (*limits.open_files >= kFewFiles) return out;
  out.severity = Severity::Warning;
  out.text += ": few, where many ranks or Parquet files are open at once";
  const bool raisable = limits.most_open_files.value_or(kFewFiles * 16) >= kFewFiles;
  out.advice = raisable
                   ? fmt::format("ulimit -n {}",
                                 std::min(limits.most_open_files.value_or(65536), int64_t{65536}))
                   : "ask an administrator to raise nofile in limits.conf";
  return out;
}

Finding check_processes(const machine::CgroupLimits& cgroup, const machine::Limits& limits) {
  Finding out{Severity::Ok, "processes", "unlimited", ""};
  int64_t most = limits.processes.value_or(0);
  const bool by_group = fenced(cgroup.processes, most);
  if (by_group) most = cgroup.processes;
  if (most == 0) return out;
  out.text = fmt::format("{} processes and threads{}", human_count(most),
                         by_group ? " (control group)" : "");
  if (most >= kFewProcesses) return out;
  out.severity = Severity::Warning;
  out.text += ": every thread of every rank counts";
  out.advice = by_group ? "raise pids.max (docker run --pids-limit)" : "raise ulimit -u";
  return out;
}

Finding check_locked(const machine::Limits& limits, const machine::Gpus& gpus) {
  Finding out{Severity::Ok, "locked memory", "unlimited", ""};
  if (!limits.locked_bytes) return out;
  out.text = human_bytes(*limits.locked_bytes);
  if (gpus.gpus.empty() || *limits.locked_bytes >= kGiB) return out;
  out.severity = Severity::Note;
  out.text += ": NCCL over InfiniBand locks more";
  out.advice = "ulimit -l unlimited (docker run --ulimit memlock=-1)";
  return out;
}

Finding check_shared(const machine::Limits& limits, const machine::Gpus& gpus) {
  const machine::Space& space = limits.shared_memory;
  Finding out{Severity::Ok, "/dev/shm", "", ""};
  if (space.total_bytes >= kGiB) {
    out.text =
        fmt::format("{} free of {}", human_bytes(space.free_bytes), human_bytes(space.total_bytes));
    return out;
  }
  const bool needed = gpus.gpus.size() > 1;
  out.severity = needed ? Severity::Warning : Severity::Note;
  out.text =
      space.total_bytes == 0 ? "not there" : human_bytes(space.total_bytes) + ", as Docker gives";
  out.text +=
      needed ? ": NCCL needs more between GPUs" : ": enough for convoy; only NCCL needs more";
  if (needed) out.advice = "docker run --shm-size=8g, or --ipc=host";
  return out;
}

Finding check_space(const char* about, const machine::Space& space, int64_t wanted) {
  Finding out{Severity::Ok, about, "", ""};
  if (space.total_bytes == 0) {
    return {Severity::Problem, about, fmt::format("{} cannot be looked at", space.path),
            "set TMPDIR, or output.dir, to a folder that exists"};
  }
  out.text = fmt::format("{} free in {}", human_bytes(space.free_bytes), space.path);
  if (!space.writable) {
    out.severity = Severity::Warning;
    out.text += ", which cannot be written to";
    out.advice = "set TMPDIR, or output.dir, to a folder of yours";
  } else if (space.free_bytes < wanted) {
    out.severity = Severity::Warning;
    out.advice = "make room, or name a folder on another disk";
  }
  return out;
}

}  // namespace

const char* to_text(Severity severity) {
  constexpr const char* kNames[] = {"ok", "note", "warning", "problem"};
  return kNames[static_cast<int>(severity)];
}

Json to_json(const std::vector<Finding>& findings) {
  Json out = Json::array();
  for (const Finding& finding : findings) {
    out.push_back({{"verdict", to_text(finding.severity)},
                   {"about", finding.about},
                   {"text", finding.text},
                   {"advice", finding.advice}});
  }
  return out;
}

Severity worst(const std::vector<Finding>& findings) {
  Severity out = Severity::Ok;
  for (const Finding& finding : findings) out = std::max(out, finding.severity);
  return out;
}

std::vector<Finding> check_cpus(const machine::Host& host, const machine::CgroupLimits& cgroup,
                                const machine::Limits& limits) {
  std::vector<Finding> out;
  const int usable = limits.usable_cpus;
  if (cgroup.cpus > 0 && cgroup.cpus < usable) {
    out.push_back(
        {Severity::Warning, "cores",
         fmt::format("the control group gives {:.4g} CPUs' worth of time, but {} CPUs are "
                     "visible: more threads than that are stopped again and again",
                     cgroup.cpus, usable),
         fmt::format("OMP_NUM_THREADS={}, or --threads and --nproc within it",
                     usable_cores(cgroup, limits))});
  } else if (host.threads > usable) {
    out.push_back({Severity::Note, "cores",
                   fmt::format("{} of {} CPUs may be used (affinity)", usable, host.threads), ""});
  } else {
    out.push_back({Severity::Ok, "cores", fmt::format("{} usable", usable), ""});
  }
  if (host.nodes.size() > 1) {
    const bool empty = std::any_of(
        host.nodes.begin(), host.nodes.end(),
        [](const machine::NumaNode& node) { return !node.cpus.empty() && node.memory_bytes == 0; });
    out.push_back(
        {empty ? Severity::Warning : Severity::Note, "NUMA",
         fmt::format("{} nodes: memory of another node is slower to reach{}", host.nodes.size(),
                     empty ? "; one with cores has no memory of its own" : ""),
         "one rank per node, each under numactl --cpunodebind=N --membind=N"});
  }
  return out;
}

std::vector<Finding> check_memory(const machine::Host& host, const machine::CgroupLimits& cgroup) {
  std::vector<Finding> out;
  Finding memory{Severity::Ok, "memory",
                 fmt::format("{} of {} available", human_bytes(host.available_bytes),
                             human_bytes(host.memory_bytes)),
                 ""};
  if (host.memory_bytes == 0) {
    memory = {Severity::Note, "memory", "how much there is cannot be read", ""};
  } else if (fenced(cgroup.memory_bytes, host.memory_bytes)) {
    memory = {Severity::Note, "memory",
              fmt::format("the control group allows {} of {}: the kernel kills what takes more",
                          human_bytes(cgroup.memory_bytes), human_bytes(host.memory_bytes)),
              ""};
  } else if (host.available_bytes < host.memory_bytes / 10) {
    memory.severity = Severity::Warning;
    memory.advice = "see who holds the rest (top)";
  }
  out.push_back(memory);
  if (host.overcommit == 2) {
    out.push_back({Severity::Warning, "overcommit",
                   "vm.overcommit_memory = 2: the kernel refuses memory that is reserved but not "
                   "used, as libraries for GPUs and thread stacks reserve it",
                   "vm.overcommit_memory = 0"});
  }
  if (host.huge_pages == "never") {
    out.push_back({Severity::Note, "huge pages", "never: large tensors take longer to set up",
                   "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, as root"});
  } else if (!host.huge_pages.empty()) {
    out.push_back({Severity::Ok, "huge pages", host.huge_pages, ""});
  }
  return out;
}

std::vector<Finding> check_limits(const machine::CgroupLimits& cgroup,
                                  const machine::Limits& limits, const machine::Gpus& gpus) {
  return {check_files(limits),
          check_processes(cgroup, limits),
          check_locked(limits, gpus),
          check_shared(limits, gpus),
          check_space("temporary files", limits.temporary, kGiB / 4),
          check_space("this folder", limits.here, kGiB)};
}

std::vector<Finding> check_gpus(const machine::Gpus& gpus) {
  std::vector<Finding> out;
  if (!gpus.gpus.empty() && gpus.driver.empty()) {
    out.push_back(
        {Severity::Warning, "GPUs",
         fmt::format("{} on the PCI bus, but NVIDIA's driver is not loaded", gpus.gpus.size()),
         "install the driver, or give the container its GPUs (docker run --gpus all)"});
  } else if (!gpus.gpus.empty() && gpus.num_visible == 0) {
    out.push_back(
        {Severity::Warning, "GPUs",
         fmt::format("{} on the PCI bus, but none can be used: /dev/nvidia0 is missing, or "
                     "CUDA_VISIBLE_DEVICES hides them",
                     gpus.gpus.size()),
         "give the container its GPUs (docker run --gpus all)"});
  }
  for (size_t i = 0; i < gpus.gpus.size(); ++i) {
    const machine::Gpu& gpu = gpus.gpus[i];
    if (gpu.pcie_lanes > 0 && gpu.pcie_lanes < gpu.most_pcie_lanes) {
      out.push_back(
          {Severity::Warning, fmt::format("GPU {}", i),
           fmt::format("its slot gives {} of {} PCIe lanes", gpu.pcie_lanes, gpu.most_pcie_lanes),
           "see whether the card sits right and in a slot of full width"});
    }
  }
  return out;
}

}  // namespace convoy::doctor
