#include "convoy/machine/host.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "convoy/base/files.h"
#include "convoy/machine/cgroup.h"
#include "convoy/machine/gpus.h"
#include "convoy/machine/limits.h"
#include "convoy/machine/memory_limit.h"
#include "convoy/machine/system_files.h"

namespace convoy::machine {
namespace {

namespace fs = std::filesystem;

/// A made-up machine: files of /proc and /sys in a folder of their own.
class MadeUpMachine : public ::testing::Test {
 protected:
  void SetUp() override { root_ = unique_folder("convoy-test"); }
  void TearDown() override { fs::remove_all(root_); }

  void file(const std::string& path, const std::string& text) {
    write_file(root_ / path, text + "\n");
  }

  /// A PCI device behind `bridges`, linked as the kernel links it.
  void pci(const std::string& id, const std::string& bridges, const std::string& vendor,
           const std::string& kind) {
    const auto device = "sys/devices/" + bridges + "/" + id;
    file(device + "/vendor", vendor);
    file(device + "/class", kind);
    file(device + "/numa_node", "0");
    file(device + "/current_link_width", "8");
    file(device + "/max_link_width", "16");
    file(device + "/max_link_speed", "32.0 GT/s PCIe");
    fs::create_directories(root_ / "sys/bus/pci/devices");
    fs::create_directory_symlink("../../../devices/" + bridges + "/" + id,
                                 root_ / "sys/bus/pci/devices" / id);
  }

  fs::path root_;
};

TEST_F(MadeUpMachine, TwoSocketsWithTwoThreadsACore) {
  file("proc/sys/kernel/hostname", "big");
  file("proc/sys/kernel/ostype", "Linux");
  file("proc/sys/kernel/osrelease", "6.1.0");
  file("etc/os-release", "NAME=x\nPRETTY_NAME=\"Some Linux 12\"");
  file("proc/cpuinfo",
       "processor\t: 0\nmodel name\t: Big Chip\nflags\t\t: fpu avx2 avx512f avx512_bf16 amx_tile "
       "amx_bf16\n");
  file("proc/meminfo", "MemTotal:  2048 kB\nMemAvailable:  1024 kB\nSwapTotal:  512 kB");
  file("sys/devices/system/cpu/online", "0-7");
  for (int cpu = 0; cpu < 8; ++cpu) {
    const auto at = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    file(at + "physical_package_id", std::to_string(cpu % 4 / 2));
    file(at + "core_id", std::to_string(cpu % 2));
  }
  for (const char* node : {"0", "1"}) {
    const std::string at = std::string("sys/devices/system/node/node") + node + "/";
    file(at + "cpulist", node[0] == '0' ? "0-1,4-5" : "2-3,6-7");
    file(at + "distance", node[0] == '0' ? "10 21" : "21 10");
    file(at + "meminfo",
         std::string("Node ") + node + " MemTotal:  1024 kB\nNode " + node + " MemFree:  256 kB");
  }
  file("sys/devices/system/node/possible", "0-1");
  file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  file("proc/sys/vm/overcommit_memory", "2");

  const Host host = read_host(root_);
  EXPECT_EQ(host.name, "big");
  EXPECT_EQ(host.system, "Some Linux 12, Linux 6.1.0");
  EXPECT_EQ(host.cpu, "Big Chip");
  EXPECT_EQ(host.sockets, 2);
  EXPECT_EQ(host.cores, 4);
  EXPECT_EQ(host.threads, 8);
  EXPECT_EQ(host.instructions,
            (std::vector<std::string>{"AVX2", "AVX-512", "AVX512-BF16", "AMX-BF16"}));
  ASSERT_EQ(host.nodes.size(), 2u);
  EXPECT_EQ(host.nodes[1].id, 1);
  EXPECT_EQ(host.nodes[1].cpus, (std::vector<int>{2, 3, 6, 7}));
  EXPECT_EQ(host.nodes[1].memory_bytes, 1024 * 1024);
  EXPECT_EQ(host.nodes[1].free_bytes, 256 * 1024);
  EXPECT_EQ(host.nodes[1].distances, (std::vector<int>{21, 10}));
  EXPECT_EQ(host.memory_bytes, 2048 * 1024);
  EXPECT_EQ(host.available_bytes, 1024 * 1024);
  EXPECT_EQ(host.swap_bytes, 512 * 1024);
  EXPECT_EQ(host.huge_pages, "madvise");
  EXPECT_EQ(host.overcommit, 2);
}

TEST_F(MadeUpMachine, NamesProcessorsOfArm) {
  const auto numbers = [](const char* maker, const char* part) {
    return fmt::format(
        "processor\t: 0\nFeatures\t: fp asimd sve sve2 bf16\nCPU implementer\t: {}\n"
        "CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: {}\n",
        maker, part);
  };
  file("proc/cpuinfo", numbers("0x41", "0xd4f"));
  EXPECT_EQ(read_host(root_).cpu, "Arm Neoverse V2");
  EXPECT_EQ(read_host(root_).instructions,
            (std::vector<std::string>{"NEON", "SVE", "SVE2", "BF16"}));
  file("proc/cpuinfo", numbers("0x61", "0xd4f"));
  EXPECT_EQ(read_host(root_).cpu, "Arm, implementer 0x61, part 0xd4f");
}

TEST_F(MadeUpMachine, EmptySystemReadsAsUnknown) {
  const Host host = read_host(root_);
  EXPECT_EQ(host.system + host.cpu + host.huge_pages, "");
  EXPECT_EQ(host.threads, 0);
  EXPECT_EQ(host.memory_bytes, 0);
  EXPECT_EQ(host.overcommit, -1);
  EXPECT_TRUE(host.nodes.empty());
  const CgroupLimits cgroup = read_cgroup(root_);
  EXPECT_EQ(cgroup.cpus, 0);
  EXPECT_EQ(cgroup.memory_bytes, 0);
  const Gpus gpus = read_gpus(root_);
  EXPECT_TRUE(gpus.gpus.empty());
  EXPECT_EQ(gpus.why_none, "the PCI bus cannot be seen from here");
}

TEST_F(MadeUpMachine, FilesHoldNonsense) {
  file("sys/devices/system/cpu/online", "x-,3-1,99999999999-,7");
  file("proc/meminfo", "MemTotal: lots\n:::\n");
  file("proc/self/cgroup", "0\n0::\n:::::");
  file("sys/fs/cgroup/cpu.max", "100000 0");
  file("sys/fs/cgroup/memory.max", "-5");
  file("sys/kernel/mm/transparent_hugepage/enabled", "]always[");
  const Host host = read_host(root_);
  EXPECT_EQ(host.threads, 1);
  EXPECT_EQ(host.memory_bytes, 0);
  EXPECT_EQ(host.huge_pages, "");
  EXPECT_EQ(read_cgroup(root_).cpus, 0);
  EXPECT_EQ(read_cgroup(root_).memory_bytes, 0);
}

TEST_F(MadeUpMachine, ControlGroupsOfVersionTwo) {
  file("proc/self/cgroup", "0::/batch/job 7/task");
  file("sys/fs/cgroup/batch/job 7/task/cpu.max", "max 100000");
  file("sys/fs/cgroup/batch/job 7/task/memory.max", "max");
  file("sys/fs/cgroup/batch/job 7/cpu.max", "250000 100000");
  file("sys/fs/cgroup/batch/memory.max", "1073741824");
  file("sys/fs/cgroup/batch/pids.max", "300");
  const CgroupLimits limits = read_cgroup(root_);
  EXPECT_DOUBLE_EQ(limits.cpus, 2.5);
  EXPECT_EQ(limits.memory_bytes, 1 << 30);
  EXPECT_EQ(limits.processes, 300);
}

TEST_F(MadeUpMachine, ControlGroupsOfVersionOneInAContainer) {
  // The host's paths, which the container does not see: its own group is the top of each tree.
  file("proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/");
  file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000");
  file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912");
  CgroupLimits limits = read_cgroup(root_);
  EXPECT_DOUBLE_EQ(limits.cpus, 1.5);
  EXPECT_EQ(limits.memory_bytes, 512 << 20);
  file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  limits = read_cgroup(root_);
  EXPECT_EQ(limits.cpus, 0);
  EXPECT_EQ(limits.memory_bytes, 0);
}

TEST_F(MadeUpMachine, TellsTheAvailableMemory) {
  EXPECT_EQ(available_memory(root_), 0) << "unknown";
  EXPECT_FALSE(memory_kills(root_).has_value());
  file("proc/meminfo", "MemTotal: 900 kB\nMemAvailable: 300 kB\nSwapFree: 50 kB\n");
  file("proc/vmstat", "oom_kill_of_others 9\noom_kill 3\n");
  EXPECT_EQ(available_memory(root_), 350 << 10);
  EXPECT_EQ(memory_kills(root_), 3);
  file("proc/self/cgroup", "4:memory:/\n0::/job");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "400000");
  file("sys/fs/cgroup/memory/memory.usage_in_bytes", "300000");
  file("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 20000\n");
  EXPECT_EQ(available_memory(root_), 120000);
  file("sys/fs/cgroup/unified/job/memory.max", "500000");
  file("sys/fs/cgroup/unified/job/memory.current", "600000");
  file("sys/fs/cgroup/unified/job/memory.stat", "inactive_file 140000\n");
  EXPECT_EQ(available_memory(root_), 40000);
  file("sys/fs/cgroup/unified/job/memory.stat", "inactive_file 0\n");
  EXPECT_EQ(available_memory(root_), 1) << "nothing, but known";
}

TEST_F(MadeUpMachine, GpusAndTheWaysBetweenThem) {
  file(
      "proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Wed Aug 27\nGCC version: 12.2.0");
  file("proc/driver/nvidia/gpus/0000:02:00.0/information",
       "Model: \t\t NVIDIA H100\nBus Location: \t 0000:02:00.0");
  pci("0000:02:00.0", "pci0000:00/0000:00:01.0/0000:01:00.0", "0x10de", "0x030200");
  pci("0000:03:00.0", "pci0000:00/0000:00:01.0/0000:01:01.0", "0x10de", "0x030200");
  pci("0000:05:00.0", "pci0000:00/0000:00:02.0", "0x10de", "0x030000");
  pci("0000:81:00.0", "pci0000:80/0000:80:01.0", "0x10de", "0x030000");
  pci("0000:02:00.1", "pci0000:00/0000:00:01.0/0000:01:00.0", "0x10de", "0x040300");  // sound
  pci("0000:06:00.0", "pci0000:00", "0x8086", "0x030000");
  file("sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/numa_node", "1");
  const Gpus gpus = read_gpus(root_);
  EXPECT_EQ(gpus.driver, "580.82.07");
  EXPECT_EQ(gpus.why_none, "");
  ASSERT_EQ(gpus.gpus.size(), 4u);
  EXPECT_EQ(gpus.gpus[0].name, "NVIDIA H100");
  EXPECT_EQ(gpus.gpus[0].pcie_lanes, 8);
  EXPECT_EQ(gpus.gpus[0].most_pcie_lanes, 16);
  EXPECT_EQ(gpus.gpus[0].pcie_speed, "32.0 GT/s PCIe");
  EXPECT_EQ(gpus.gpus[3].numa_node, 1);
  std::map<std::pair<int, int>, std::string> paths;
  for (const auto& link : gpus.links) paths[{link.a, link.b}] = link.path;
  EXPECT_EQ(paths.size(), 6u);
  EXPECT_EQ((paths[{0, 1}]), "PCIe switch");
  EXPECT_EQ((paths[{0, 2}]), "same PCIe root");
  EXPECT_EQ((paths[{1, 3}]), "between NUMA nodes");
}

TEST_F(MadeUpMachine, NoGpuAmongTheDevices) {
  pci("0000:06:00.0", "pci0000:00", "0x1234", "0x030000");
  EXPECT_EQ(read_gpus(root_).why_none, "there is no NVIDIA GPU on the PCI bus");
}

TEST(SystemFiles, ListsOfCpus) {
  EXPECT_EQ(cpus_in("0-2,8\n"), (std::vector<int>{0, 1, 2, 8}));
  EXPECT_TRUE(cpus_in("").empty());
  EXPECT_TRUE(cpus_in("0-99999999999").empty());
}

TEST(Limits, AreReadOfThisProcess) {
  const Limits limits = read_limits();
  EXPECT_GE(limits.usable_cpus, 1);
  EXPECT_GT(limits.temporary.total_bytes, 0);
  EXPECT_TRUE(limits.temporary.writable);
  EXPECT_GT(limits.here.free_bytes, 0);
}

TEST(MemoryLimit, IsTheTightestOfAllLimits) {
  constexpr int64_t kGib = 1 << 30;
  Limits limits;
  EXPECT_EQ(memory_limit(0, {}, limits).bytes, 0) << "unknown";
  EXPECT_EQ(memory_limit(8 * kGib, {}, limits).text, "this machine has 8.00 GiB");
  EXPECT_EQ(memory_limit(8 * kGib, {0, 4 * kGib, 0}, limits).text,
            "this machine's control group allows 4.00 GiB");
  limits.data_bytes = 5 * kGib;
  limits.address_bytes = 2 * kGib;
  const auto tightest = memory_limit(8 * kGib, {0, 4 * kGib, 0}, limits);
  EXPECT_EQ(tightest.bytes, 2 * kGib);
  EXPECT_EQ(tightest.text, "`ulimit -v` allows 2.00 GiB");
}

TEST(Machine, KnowsItself) {
  const Host host = read_host();
  EXPECT_FALSE(host.name.empty());
  EXPECT_GT(host.memory_bytes, 1 << 20);
  const auto lines = machine_lines(host, 2, {{"torch", "2.15.0"}, {"arrow", "26.0.0"}});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[0].find("2 cores"), std::string::npos);
  EXPECT_EQ(lines[2], "versions  arrow 26.0.0, torch 2.15.0");
}

}  // namespace
}  // namespace convoy::machine
