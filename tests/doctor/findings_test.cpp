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

void expect(const std::vector<Finding>& findings, const std::string& name, Verdict verdict,
            const std::string& part = "", const std::string& advice = "") {
  const Finding& finding = about(findings, name);
  EXPECT_EQ(to_text(finding.verdict), std::string(to_text(verdict))) << name << finding.text;
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
  EXPECT_EQ(worst(all), Verdict::Ok) << to_json(all).dump(2);
  EXPECT_EQ(worst({}), Verdict::Ok);
}

TEST(Findings, AQuotaOfCpuTimeLimitsTheThreads) {
  const machine::CgroupLimits cgroup{2.5, 0, 0};
  EXPECT_EQ(usable_cores(cgroup, good_limits()), 2);
  EXPECT_EQ(usable_cores({0.5, 0, 0}, good_limits()), 1);
  EXPECT_EQ(usable_cores({64, 0, 0}, good_limits()), 16);
  expect(check_cpus(good_host(), cgroup, good_limits()), "cores", Verdict::Warning, "2.5 CPUs",
         "OMP_NUM_THREADS=2");
  auto pinned = good_limits();
  pinned.usable_cpus = 4;
  expect(check_cpus(good_host(), {}, pinned), "cores", Verdict::Note, "4 of 16");
}

TEST(Findings, NumaNodesAreNamed) {
  auto host = good_host();
  host.nodes = {{0, {0, 1}, 32 * kGiB, kGiB, {10, 21}}, {1, {2, 3}, 32 * kGiB, kGiB, {21, 10}}};
  expect(check_cpus(host, {}, good_limits()), "NUMA", Verdict::Note, "2 nodes", "numactl");
  host.nodes[1].memory_bytes = 0;
  expect(check_cpus(host, {}, good_limits()), "NUMA", Verdict::Warning, "no memory of its own");
}

TEST(Findings, MemoryThatIsShortOrFenced) {
  auto host = good_host();
  expect(check_memory(host, {0, 8 * kGiB, 0}), "memory", Verdict::Note, "allows 8.00 GiB of 64.0");
  expect(check_memory(host, {0, 128 * kGiB, 0}), "memory", Verdict::Ok);
  host.available_bytes = kGiB;
  host.overcommit = 2;
  host.huge_pages = "never";
  const auto findings = check_memory(host, {});
  expect(findings, "memory", Verdict::Warning, "1.00 GiB of 64.0 GiB available");
  expect(findings, "overcommit", Verdict::Warning, "= 2");
  expect(findings, "huge pages", Verdict::Note);
  expect(check_memory({}, {}), "memory", Verdict::Note, "cannot be read");
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
  expect(findings, "open files", Verdict::Warning, "1,024", "ulimit -n 65536");
  expect(findings, "processes", Verdict::Warning, "500", "ulimit -u");
  expect(findings, "locked memory", Verdict::Ok);
  expect(findings, "/dev/shm", Verdict::Note, "64.0 MiB, as Docker gives: enough for convoy");
  expect(findings, "temporary files", Verdict::Warning, "cannot be written", "TMPDIR");
  expect(findings, "this folder", Verdict::Warning, "1.00 MiB free");

  limits.most_open_files = 1024;
  limits.here.total_bytes = 0;
  limits.processes.reset();
  machine::Gpus gpus;
  gpus.gpus.resize(2);
  findings = check_limits({0, 0, 100}, limits, gpus);
  expect(findings, "open files", Verdict::Warning, "", "administrator");
  expect(findings, "processes", Verdict::Warning, "100 processes and threads (control group)",
         "pids.max");
  expect(findings, "locked memory", Verdict::Note, "InfiniBand", "memlock");
  expect(findings, "/dev/shm", Verdict::Warning, "NCCL needs more", "--shm-size");
  expect(findings, "this folder", Verdict::Problem);
  EXPECT_EQ(worst(findings), Verdict::Problem);
}

TEST(Findings, GpusWithoutDriverAndInNarrowSlots) {
  machine::Gpus gpus;
  gpus.gpus.resize(2);
  gpus.gpus[1].pcie_lanes = 8;
  gpus.gpus[1].most_pcie_lanes = 16;
  auto findings = check_gpus(gpus);
  expect(findings, "GPUs", Verdict::Warning, "driver is not loaded");
  expect(findings, "GPU 1", Verdict::Warning, "8 of 16 PCIe lanes");
  EXPECT_EQ(findings.size(), 2u);
  gpus.driver = "580.82.07";
  expect(check_gpus(gpus), "GPUs", Verdict::Warning, "/dev/nvidia0 is missing");
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
  expect(findings, "OMP_NUM_THREADS", Verdict::Warning, "there are 16 cores", "OMP_NUM_THREADS=16");
  expect(findings, "CUDA_VISIBLE_DEVICES", Verdict::Note, "hides every GPU");
  expect(findings, "GLOO_SOCKET_IFNAME", Verdict::Note, "= eth0: network interface of Gloo");
  set = {{"OMP_NUM_THREADS", "all"}, {"CUDA_VISIBLE_DEVICES", "1,0"}};
  findings = check_variables(get, 16);
  expect(findings, "OMP_NUM_THREADS", Verdict::Warning, "no number");
  expect(findings, "CUDA_VISIBLE_DEVICES", Verdict::Note, "= 1,0: GPUs");
  set = {{"OMP_NUM_THREADS", "4,2"}};
  expect(check_variables(get, 16), "OMP_NUM_THREADS", Verdict::Note, "threads of each rank");
}

}  // namespace
}  // namespace convoy::doctor
