#include <gtest/gtest.h>

#include <map>

#include "convoy/doctor/findings.h"
#include "convoy/machine/cores.h"

namespace convoy::doctor {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

const Finding& about(const std::vector<Finding>& findings, const std::string& name) {
  for (const Finding& finding : findings) {
    if (finding.about == name) return finding;
  }
  ADD_FAILURE() << "nothing about " << name;
  static const Finding kNone;
  return kNone;
}

void expect(const std::vector<Finding>& findings, const std::string& name, Severity severity,
            const std::string& part = "", const std::string& advice = "") {
  const Finding& finding = about(findings, name);
  EXPECT_EQ(to_text(finding.severity), std::string(to_text(severity))) << name << finding.text;
  EXPECT_NE(finding.text.find(part), std::string::npos) << part << " in " << finding.text;
  EXPECT_NE(finding.advice.find(advice), std::string::npos) << advice << " in " << finding.advice;
}

machine::Host good_host() {
  machine::Host host;
  host.sockets = 1;
  host.cores = 8;
  host.threads = 16;
  host.memory_bytes = 64 * kGiB;
  host.available_bytes = 60 * kGiB;
  host.huge_pages = "madvise";
  host.overcommit = 0;
  return host;
}

machine::Limits good_limits() {
  machine::Limits limits;
  limits.usable_cpus = 16;
  limits.open_files = limits.most_open_files = 65536;
  limits.processes = 100000;
  limits.shared_memory = {"/dev/shm", true, 32 * kGiB, 32 * kGiB};
  limits.temporary = {"/tmp", true, 100 * kGiB, 50 * kGiB};
  limits.here = {"/home/me", true, 100 * kGiB, 50 * kGiB};
  return limits;
}

TEST(Findings, AGoodMachineHasNone) {
  auto all = check_cpus(good_host(), {}, good_limits());
  for (const auto& more : {check_memory(good_host(), {}), check_limits({}, good_limits(), {}),
                           check_gpus({}), check_variables([](auto) { return nullptr; }, 16)}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  EXPECT_EQ(worst(all), Severity::Ok) << to_json(all).dump(2);
  EXPECT_EQ(worst({}), Severity::Ok);
}

TEST(Findings, AQuotaOfCpuTimeLimitsTheThreads) {
  const machine::CgroupLimits cgroup{2.5, 0, 0};
  EXPECT_EQ(usable_cores(cgroup, good_limits()), 2);
  EXPECT_EQ(usable_cores({0.5, 0, 0}, good_limits()), 1);
  EXPECT_EQ(usable_cores({64, 0, 0}, good_limits()), 16);
  expect(check_cpus(good_host(), cgroup, good_limits()), "cores", Severity::Warning, "2.5 CPUs",
         "OMP_NUM_THREADS=2");
  auto pinned = good_limits();
  pinned.usable_cpus = 4;
  expect(check_cpus(good_host(), {}, pinned), "cores", Severity::Note, "4 of 16");
}

TEST(Findings, NumaNodesAreNamed) {
  auto host = good_host();
  host.nodes = {{0, {0, 1}, 32 * kGiB, kGiB, {10, 21}}, {1, {2, 3}, 32 * kGiB, kGiB, {21, 10}}};
  expect(check_cpus(host, {}, good_limits()), "NUMA", Severity::Note, "2 nodes", "numactl");
  host.nodes[1].memory_bytes = 0;
  expect(check_cpus(host, {}, good_limits()), "NUMA", Severity::Warning, "no memory of its own");
}

TEST(Findings, MemoryThatIsShortOrFenced) {
  auto host = good_host();
  expect(check_memory(host, {0, 8 * kGiB, 0}), "memory", Severity::Note, "allows 8.00 GiB of 64.0");
  expect(check_memory(host, {0, 128 * kGiB, 0}), "memory", Severity::Ok);
  host.available_bytes = kGiB;
  host.overcommit = 2;
  host.huge_pages = "never";
  const auto findings = check_memory(host, {});
  expect(findings, "memory", Severity::Warning, "1.00 GiB of 64.0 GiB available");
  expect(findings, "overcommit", Severity::Warning, "= 2");
  expect(findings, "huge pages", Severity::Note);
  expect(check_memory({}, {}), "memory", Severity::Note, "cannot be read");
}

TEST(Findings, LimitsThatAreLow) {
  machine::Limits limits = good_limits();
  limits.open_files = 1024;
  limits.processes = 500;
  limits.locked_bytes = 64 << 10;
  limits.shared_memory.total_bytes = limits.shared_memory.free_bytes = 64 << 20;
  limits.temporary.writable = false;
  limits.here.free_bytes = 1 << 20;
  auto findings = check_limits({}, limits, {});
  expect(findings, "open files", Severity::Warning, "1,024", "ulimit -n 65536");
  expect(findings, "processes", Severity::Warning, "500", "ulimit -u");
  expect(findings, "locked memory", Severity::Ok);
  expect(findings, "/dev/shm", Severity::Note, "64.0 MiB, as Docker gives: enough for convoy");
  expect(findings, "temporary files", Severity::Warning, "cannot be written", "TMPDIR");
  expect(findings, "this folder", Severity::Warning, "1.00 MiB free");

  limits.most_open_files = 1024;
  limits.here.total_bytes = 0;
  limits.processes.reset();
  machine::Gpus gpus;
  gpus.gpus.resize(2);
  findings = check_limits({0, 0, 100}, limits, gpus);
  expect(findings, "open files", Severity::Warning, "", "administrator");
  expect(findings, "processes", Severity::Warning, "100 processes and threads (control group)",
         "pids.max");
  expect(findings, "locked memory", Severity::Note, "InfiniBand", "memlock");
  expect(findings, "/dev/shm", Severity::Warning, "NCCL needs more", "--shm-size");
  expect(findings, "this folder", Severity::Problem);
  EXPECT_EQ(worst(findings), Severity::Problem);
}

TEST(Findings, GpusWithoutDriverAndInNarrowSlots) {
  machine::Gpus gpus;
  gpus.gpus.resize(2);
  gpus.gpus[1].pcie_lanes = 8;
  gpus.gpus[1].most_pcie_lanes = 16;
  auto findings = check_gpus(gpus);
  expect(findings, "GPUs", Severity::Warning, "driver is not loaded");
  expect(findings, "GPU 1", Severity::Warning, "8 of 16 PCIe lanes");
  EXPECT_EQ(findings.size(), 2u);
  gpus.driver = "580.82.07";
  expect(check_gpus(gpus), "GPUs", Severity::Warning, "/dev/nvidia0 is missing");
  gpus.num_visible = 2;
  EXPECT_EQ(check_gpus(gpus).size(), 1u);
}

TEST(Findings, VariablesAreExplained) {
  std::map<std::string, std::string> set{
      {"OMP_NUM_THREADS", "32"}, {"CUDA_VISIBLE_DEVICES", ""}, {"GLOO_SOCKET_IFNAME", "eth0"}};
  const auto get = [&](const char* name) {
    auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  };
  auto findings = check_variables(get, 16);
  ASSERT_EQ(findings.size(), 3u);
  expect(findings, "OMP_NUM_THREADS", Severity::Warning, "there are 16 cores",
         "OMP_NUM_THREADS=16");
  expect(findings, "CUDA_VISIBLE_DEVICES", Severity::Note, "hides every GPU");
  expect(findings, "GLOO_SOCKET_IFNAME", Severity::Note, "= eth0: network interface of Gloo");
  set = {{"OMP_NUM_THREADS", "all"}, {"CUDA_VISIBLE_DEVICES", "1,0"}};
  findings = check_variables(get, 16);
  expect(findings, "OMP_NUM_THREADS", Severity::Warning, "no number");
  expect(findings, "CUDA_VISIBLE_DEVICES", Severity::Note, "= 1,0: GPUs");
  set = {{"OMP_NUM_THREADS", "4,2"}};
  expect(check_variables(get, 16), "OMP_NUM_THREADS", Severity::Note, "threads of each rank");
}

}  // namespace
}  // namespace convoy::doctor
